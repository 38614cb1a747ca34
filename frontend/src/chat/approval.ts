/** The card of a call that waits for a person: what will happen, with what, and the buttons. */
import { titleOf } from "./calls.ts";
import type { Desk, Said } from "./desk.ts";
import { button, h, icon, say } from "../lib/dom.ts";
import type { Json } from "../lib/json.ts";
import type { CallItem, Item, QuestionItem } from "./items.ts";
import type { Line } from "./lines.ts";

const MOST_ROWS = 12;

/** The same for a call of a sub-agent, which is answered where its parent is read. */
export function question(item: QuestionItem, desk: Desk): Line {
  const its: Desk = {
    ...desk,
    agent: item.agent || "The sub-agent",
    answer: (_, said) => desk.answerQuestion(item.approvalId, said),
  };
  const title = item.sessionTitle || "Sub-agent";
  const from = h("a", { class: "link-text approval-from", href: `/chat/${item.sessionId}/`, text: title });
  return approval(item.call, its, from);
}

export function approval(first: CallItem, desk: Desk, from?: HTMLElement): Line {
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
  const once = button("Allow once", () => void answer("allow"), { class: "btn btn-sm btn-primary" });
  const forSession = button("For this session", () => void answer("allow", "session"), {
    class: "btn btn-sm btn-quiet",
  });
  const always = button("Always", () => void answer("allow", "always"), { class: "btn btn-sm btn-quiet" });
  const deny = button("Deny", () => void answer("deny"), { class: "btn btn-sm btn-danger" });
  once.append(keycap("↵"));
  deny.append(keycap("⌫"));
  once.dataset["approve"] = "";
  deny.dataset["deny"] = "";
  const card = h(
    "section",
    { class: "approval", "aria-labelledby": `${id}-title` },
    h(
      "header",
      { class: "approval-head" },
      icon("shield-check"),
      h("h3", { id: `${id}-title`, text: `${titleOf(first.name, words)}?` }),
      from,
      h("span", { class: "state is-waiting", text: "Needs you" }),
    ),
    h("p", { class: "approval-words", text: wordsOf(first, desk) }),
    h("label", { class: "approval-label", for: input.id, text: "Exactly these arguments; you can change them" }),
    input,
    wrong,
    h(
      "div",
      { class: "approval-end" },
      h(
        "div",
        { class: "approval-no" },
        h("label", { class: "sr-only", for: note.id, text: "Reason for denying" }),
        note,
        deny,
      ),
      h("div", { class: "approval-yes" }, desk.mayAdmin && always, forSession, once),
    ),
    h("p", { class: "approval-covers", text: coversOf(first, desk) }),
  );

  async function answer(decision: Said["decision"], scope: Said["scope"] = "once"): Promise<void> {
    const changed = decision === "allow" && input.value !== given ? parsed() : undefined;
    if (changed === null) return;
    busy(true);
    try {
      const said: Said = { decision, scope, note: note.value.trim() };
      await desk.answer(first.key, changed ? { ...said, input: changed } : said);
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
    for (const one of [once, forSession, always, deny]) one.disabled = on;
  }

  const node = h("li", { class: "line is-approval" }, card);
  return { node, update: (_item: Item) => undefined };
}

/** In plain words: what happens on a yes, and why it asks. */
function wordsOf(item: CallItem, desk: Desk): string {
  const reason = why(item.decidedBy);
  const effects = desk.tools[item.name]?.effects ?? "";
  return [`${desk.agent} wants to do this.`, effects, reason].filter(Boolean).join(" ");
}

/** Which calls the wider answers let through. */
function coversOf(item: CallItem, desk: Desk): string {
  const what = desk.tools[item.name]?.covers ?? "every call of this tool";
  return desk.mayAdmin
    ? `For this session and always cover ${what}. Always writes a rule into the agent's policy.`
    : `For this session covers ${what}.`;
}

function keycap(key: string): HTMLElement {
  const mac = navigator.platform.startsWith("Mac");
  return h("kbd", { class: "for-keys", "aria-hidden": "true", text: `${mac ? "⌘" : "Ctrl"} ${key}` });
}

/** Whose policy a layer is. */
const OWNERS: Record<string, string> = {
  workspace: "The workspace's policy",
  agent: "The agent's policy",
  environment: "The environment's policy",
  session: "The session's policy",
  subagent: "The policy of the session that started this one",
};

/** Before a rule that binds a sub-agent because it bound the session that started it. */
const PARENT = "subagent: parent, ";

/** Which rule asked, as a sentence; `sessions_app/pages/words.py` says the same. */
export function why(decidedBy: string): string {
  const at = decidedBy.indexOf(": ");
  if (at < 0) return decidedBy ? `Asked because of ${decidedBy}.` : "";
  if (decidedBy.startsWith(PARENT)) return why(decidedBy.slice(PARENT.length));
  const layer = decidedBy.slice(0, at);
  if (layer === "default") return "This tool always asks first, until a rule of the agent allows it.";
  return `${OWNERS[layer] ?? layer} asks: ${decidedBy.slice(at + 2)}.`;
}
