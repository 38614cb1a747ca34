/** One element for each thing of the conversation, redrawn only when the thing changes. */
import { approval } from "./approval.ts";
import { callLine } from "./callline.ts";
import type { Desk } from "./desk.ts";
import { button, copyText, h, timeOf } from "./dom.ts";
import type { AgentItem, ErrorItem, Item, NoteItem, Receipt, UserItem } from "./items.ts";
import { StreamingText } from "./streaming.ts";

export interface Line {
  node: HTMLElement;
  update(item: Item): void;
}

/** Which element an item needs. An approval shrinks to a line when it is answered. */
export function formOf(item: Item, desk: Desk): string {
  return item.kind === "call" && item.state === "awaiting_approval" && desk.mayRun
    ? "approval"
    : item.kind;
}

export function lineOf(item: Item, desk: Desk): Line {
  switch (item.kind) {
    case "user":
      return userLine(item, desk);
    case "agent":
      return agentLine(item, desk);
    case "call":
      return formOf(item, desk) === "approval" ? approval(item, desk) : callLine(item, desk);
    case "error":
      return errorLine(item, desk);
    case "note":
      return noteLine(item);
  }
}

const RECEIPTS: Record<Receipt, string> = {
  sending: "Sending…",
  failed: "Not sent",
  sent: "Sent",
  queued: "Queued",
  taken: "Read",
  steered: "Joined the answer",
  answered: "Answered",
};

function userLine(first: UserItem, desk: Desk): Line {
  const bubble = h("div", { class: "bubble" });
  const meta = h("p", { class: "line-meta" });
  const node = h("li", { class: "line is-person" }, bubble, meta);

  function update(item: Item): void {
    if (item.kind !== "user") return;
    bubble.textContent = item.text;
    node.dataset["receipt"] = item.receipt;
    const state = item.receipt === "failed" ? `Not sent: ${item.reason}` : RECEIPTS[item.receipt];
    meta.replaceChildren(
      ...[
        item.author ? h("span", { text: item.author }) : null,
        timeOf(item.at),
        item.edited ? h("span", { text: "edited" }) : null,
        h("span", { class: "receipt", text: state }),
      ].filter((part) => part !== null),
    );
    if (item.receipt === "failed") {
      const id = item.key.replace("letter-", "");
      meta.append(
        button("Send again", () => desk.resend(id), { class: "link-text" }),
        button("Edit", () => desk.reword(id, item.text), { class: "link-text" }),
      );
    }
  }
  update(first);
  return { node, update };
}

function agentLine(first: AgentItem, desk: Desk): Line {
  const said = h("div", { class: "said" });
  const meta = h("p", { class: "line-meta" });
  const node = h("li", { class: "line is-agent" }, said, meta);
  const text = new StreamingText(said);
  let drawn: AgentItem | undefined;

  function update(item: Item): void {
    if (item.kind !== "agent") return;
    text.update(item.text);
    node.toggleAttribute("data-streaming", item.streaming);
    if (item.streaming || drawn?.seq === item.seq) return;
    drawn = item;
    const copy = button("Copy", () => void copyText(item.text, copy), {
      class: "btn btn-bare btn-square btn-xs",
      icon: "copy",
    });
    meta.replaceChildren(
      ...[
        h("span", { text: desk.agent }),
        timeOf(item.at),
        item.model ? h("span", { text: item.model }) : null,
        copy,
      ].filter((part) => part !== null),
    );
  }
  update(first);
  return { node, update };
}

function errorLine(first: ErrorItem, desk: Desk): Line {
  const words = h("p");
  const node = h("li", { class: "line is-trouble" }, h("div", { class: "flash is-error" }, words));
  const box = node.firstElementChild!;
  let retry: HTMLButtonElement | undefined;

  function update(item: Item): void {
    if (item.kind !== "error") return;
    words.textContent = item.message;
    retry?.remove();
    const { runId } = item;
    if (!item.retryable || !runId || !desk.mayRun) return;
    retry = button("Retry", () => void again(runId), { class: "btn btn-sm btn-quiet" });
    box.append(retry);
  }
  async function again(runId: string): Promise<void> {
    retry?.setAttribute("disabled", "");
    try {
      await desk.retry(runId);
    } catch (fault) {
      words.textContent = `${words.textContent} ${(fault as Error).message}`;
      retry?.removeAttribute("disabled");
    }
  }
  update(first);
  return { node, update };
}

function noteLine(item: NoteItem): Line {
  const words = item.link
    ? h("a", { class: "link-text", href: `/chat/${item.link}/`, text: item.text })
    : h("span", { text: item.text });
  const node = h("li", { class: "line is-note" }, words, timeOf(item.at));
  return { node, update: () => undefined };
}
