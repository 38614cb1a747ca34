/** A person's message: its words and files, what became of it, and what one can do with it. */
import type { Desk } from "./desk.ts";
import { act, button, h, icon, say, timeOf } from "../lib/dom.ts";
import type { Attached, Item, Receipt, UserItem } from "./items.ts";
import type { Line } from "./lines.ts";
import { bytes } from "./notes.ts";

const RECEIPTS: Record<Receipt, string> = {
  sending: "Sending…",
  failed: "Not sent",
  sent: "Sent",
  queued: "Queued",
  taken: "Read",
  steered: "Joined the answer",
  answered: "Answered",
};

export function personLine(first: UserItem, desk: Desk): Line {
  const bubble = h("div", { class: "bubble" });
  const files = h("ul", { class: "files", hidden: true });
  const meta = h("p", { class: "line-meta" });
  const node = h("li", { class: "line is-person" }, files, bubble, meta);
  let item = first;
  let editing = false;
  let attached: readonly Attached[] | undefined;

  function update(next: Item): void {
    if (next.kind !== "user") return;
    item = next;
    node.dataset["receipt"] = item.receipt;
    if (attached !== item.files) {
      attached = item.files;
      files.replaceChildren(...attached.map((file) => fileChip(file, desk)));
      files.hidden = attached.length === 0;
    }
    if (editing) return;
    // A receipt that changes must not lay out a long text again, nor take a selection away.
    say(bubble, item.text);
    const known = [item.author ? h("span", { text: item.author }) : null, timeOf(item.at)];
    const edited = item.edited ? h("span", { text: "edited" }) : null;
    meta.replaceChildren(
      ...[...known, edited, receiptOf(item), ...actsOf()].filter((part) => part !== null),
    );
  }

  function actsOf(): HTMLElement[] {
    const { seq } = item;
    if (item.receipt === "failed") {
      const id = item.key.replace("letter-", "");
      return [
        button("Send again", () => desk.resend(id), { class: "link-text" }),
        button("Edit", () => desk.reword(id, item), { class: "link-text" }),
        button("Discard", () => desk.discard(id), { class: "link-text" }),
      ];
    }
    if (!desk.mayRun || seq === null) return [];
    const edit = button("Edit and send in a copy of this chat", begin, {
      class: "btn btn-bare btn-square btn-xs",
      icon: "pencil",
    });
    edit.dataset["editMessage"] = "";
    const fork = act("Go on from here in a copy of this chat", "git-branch", () => desk.fork(seq));
    return [edit, fork];
  }

  /** The bubble becomes a field with the text in it. */
  function begin(): void {
    editing = true;
    const area = h("textarea", { class: "bubble-edit", rows: "2", "aria-label": "Your message" });
    area.value = item.text;
    const send = button("Send in a copy", () => void submit(area.value, send), {
      class: "btn btn-sm btn-primary",
    });
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        end();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send.click();
      }
    });
    const note = h("span", { class: "bubble-note", text: "This chat stays as it is." });
    const cancel = button("Cancel", end, { class: "btn btn-sm btn-quiet" });
    bubble.replaceChildren(area, h("div", { class: "bubble-end" }, note, cancel, send));
    node.toggleAttribute("data-editing", true);
    area.focus();
  }

  async function submit(text: string, send: HTMLButtonElement): Promise<void> {
    if (!text.trim()) return;
    send.disabled = true;
    await desk.sayInstead(item, text);
    send.disabled = false;
  }

  function end(): void {
    editing = false;
    node.removeAttribute("data-editing");
    update(item);
    node.querySelector<HTMLElement>("[data-edit-message]")?.focus();
  }
  update(first);
  return { node, update };
}

function receiptOf(item: UserItem): HTMLElement {
  const word = item.receipt === "failed" ? `Not sent: ${item.reason}` : RECEIPTS[item.receipt];
  const text = item.merged ? `${word} with others at once` : word;
  return h("span", { class: "receipt", text, title: item.runId ? `Run ${item.runId}` : undefined });
}

function fileChip(file: Attached, desk: Pick<Desk, "fileUrl">): HTMLElement {
  const link = h(
    "a",
    { class: "file-chip", href: desk.fileUrl(file.path), download: file.name, title: file.path },
    icon("paperclip"),
    h("span", { class: "file-name", text: file.name }),
    h("span", { class: "file-size", text: bytes(file.size) }),
  );
  return h("li", {}, link);
}
