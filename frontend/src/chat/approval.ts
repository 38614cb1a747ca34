/** The card of a call that waits for a person: what will happen, with what, and two buttons. */
import { ruleOf } from "./callline.ts";
import { titleOf } from "./calls.ts";
import type { Desk } from "./desk.ts";
import { button, h, icon, say } from "./dom.ts";
import type { Json } from "./frames.ts";
import type { CallItem, Item } from "./items.ts";
import type { Line } from "./lines.ts";

const MOST_ROWS = 12;

export function approval(first: CallItem, desk: Desk): Line {
  const words = desk.tools[first.name];
  const id = `approval-${first.key}`;
  const given = JSON.stringify(first.input, null, 2);
  const input = h("textarea", {
    class: "approval-input",
    id: `${id}-input`,
    spellcheck: "false",
    rows: String(Math.min(MOST_ROWS, given.split("\n").length)),
  });
  input.value = given;
  const note = h("input", {
    class: "input input-sm",
    id: `${id}-note`,
    placeholder: "Why not? The agent reads it.",
    maxlength: "2000",
  });
  const wrong = h("p", { class: "field-error", role: "alert", hidden: true });
  const allow = button("Allow once", () => void answer("allow"), { class: "btn btn-sm btn-primary" });
  const deny = button("Deny", () => void answer("deny"), { class: "btn btn-sm btn-danger" });
  allow.append(keycap("↵"));
  deny.append(keycap("⌫"));
  allow.dataset["approve"] = "";
  deny.dataset["deny"] = "";
  const card = h(
    "section",
    { class: "approval", "aria-labelledby": `${id}-title` },
    h(
      "header",
      { class: "approval-head" },
      icon("shield-check"),
      h("h3", { id: `${id}-title`, text: `${titleOf(first.name, words)}?` }),
      h("span", { class: "state is-waiting", text: "Needs you" }),
    ),
    h("p", { class: "approval-words", text: wordsOf(first, desk) }),
    h("label", { class: "approval-label", for: input.id, text: "Exactly these arguments; you can change them" }),
    input,
    wrong,
    h(
      "div",
      { class: "approval-end" },
      h("label", { class: "sr-only", for: note.id, text: "Reason for denying" }),
      note,
      deny,
      allow,
    ),
  );

  async function answer(decision: "allow" | "deny"): Promise<void> {
    const changed = decision === "allow" && input.value !== given ? parsed() : undefined;
    if (changed === null) return;
    busy(true);
    try {
      await desk.answer(first.key, decision, note.value.trim(), changed);
    } catch (fault) {
      complain((fault as Error).message);
      busy(false);
    }
  }

  /** The edited arguments, or null when they are none. */
  function parsed(): Json | null {
    try {
      const read: unknown = JSON.parse(input.value);
      if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Json;
      complain("The arguments must be a JSON object.");
    } catch (fault) {
      complain(`The arguments are not JSON: ${(fault as Error).message}`);
    }
    input.focus();
    return null;
  }

  function complain(text: string): void {
    say(wrong, text);
    wrong.hidden = false;
    input.setAttribute("aria-invalid", "true");
  }

  function busy(on: boolean): void {
    for (const one of [allow, deny]) one.disabled = on;
  }

  const node = h("li", { class: "line is-approval" }, card);
  return { node, update: (_item: Item) => undefined };
}

/** In plain words: what happens on a yes, and why it asks. */
function wordsOf(item: CallItem, desk: Desk): string {
  const reason = item.decidedBy.startsWith("default:")
    ? "This kind of call always asks first."
    : ruleOf(item);
  const effects = desk.tools[item.name]?.effects ?? "";
  return [`${desk.agent} wants to do this.`, effects, reason].filter(Boolean).join(" ");
}

function keycap(key: string): HTMLElement {
  const mac = navigator.platform.startsWith("Mac");
  return h("kbd", { class: "for-keys", "aria-hidden": "true", text: `${mac ? "⌘" : "Ctrl"} ${key}` });
}
