/** Renders the approval card of a pending tool call. */
import { button, h, icon, say } from "../lib/dom.ts";
import type { Json } from "../lib/rest.ts";
import { titleOf } from "./calls.ts";
import type { ChatHost, Said } from "./host.ts";
import type { Line } from "./renderer.ts";
import type { CallItem, Item, QuestionItem } from "./state.ts";

const MOST_ROWS = 12;

/** Render the approval card of a sub-agent's call, answered in the parent's chat. */
export function question(item: QuestionItem, host: ChatHost): Line {
  const its: ChatHost = {
    ...host,
    agent: item.agent || "The sub-agent",
    answer: (_, said) => host.answerQuestion(item.approvalId, said),
  };
  const title = item.sessionTitle || "Sub-agent";
  const from = h("a", { class: "link-text approval-from", href: `/chat/${item.sessionId}/`, text: title });
  return approval(item.call, its, from);
}

export function approval(first: CallItem, host: ChatHost, from?: HTMLElement): Line {
  const words = host.tools[first.name];
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
    placeholder: "Reason, shown to the agent",
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
    h("p", { class: "approval-words", text: wordsOf(first, host) }),
    h("label", { class: "approval-label", for: input.id, text: "Exact arguments. You can edit them." }),
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
      h("div", { class: "approval-yes" }, host.mayAdmin && always, forSession, once),
    ),
    h("p", { class: "approval-covers", text: coversOf(first, host) }),
  );

  async function answer(decision: Said["decision"], scope: Said["scope"] = "once"): Promise<void> {
    const changed = decision === "allow" && input.value !== given ? parsed() : undefined;
    if (changed === null) return;
    busy(true);
    try {
      const said: Said = { decision, scope, note: note.value.trim() };
      await host.answer(first.key, changed ? { ...said, input: changed } : said);
    } catch (fault) {
      complain((fault as Error).message);
      busy(false);
    }
  }

  /** Parse the edited arguments, or show the problem and return null. */
  function parsed(): Json | null {
    try {
      const read: unknown = JSON.parse(input.value);
      if (typeof read === "object" && read !== null && !Array.isArray(read)) return read as Json;
      complain("The arguments must be a JSON object.");
    } catch (fault) {
      complain(`The arguments aren't valid JSON: ${(fault as Error).message}`);
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

/** Describe the effects of the call and why it needs approval. */
function wordsOf(item: CallItem, host: ChatHost): string {
  const reason = why(item.decidedBy);
  const effects = host.tools[item.name]?.effects ?? "";
  return [`${host.agent} wants to do this.`, effects, reason].filter(Boolean).join(" ");
}

/** Describe which calls the wider answers would allow. */
function coversOf(item: CallItem, host: ChatHost): string {
  const what = host.tools[item.name]?.covers ?? "every call of this tool";
  return host.mayAdmin
    ? `“For this session” and “Always” apply to ${what}. “Always” adds a rule to the agent's policy.`
    : `“For this session” applies to ${what}.`;
}

function keycap(key: string): HTMLElement {
  const mac = navigator.platform.startsWith("Mac");
  return h("kbd", { class: "for-keys", "aria-hidden": "true", text: `${mac ? "⌘" : "Ctrl"} ${key}` });
}

/** The owner of each policy layer. */
const OWNERS: Record<string, string> = {
  workspace: "The workspace's policy",
  agent: "The agent's policy",
  environment: "The environment's policy",
  session: "The session's policy",
  subagent: "The policy of the session that started this one",
};

/** Prefix of a rule inherited from the parent session. */
const PARENT = "subagent: parent, ";

/** Explain which rule requires approval. Keep in step with `sessions_app/pages/labels.py`. */
export function why(decidedBy: string): string {
  const at = decidedBy.indexOf(": ");
  if (at < 0) return decidedBy ? `Asked because of ${decidedBy}.` : "";
  if (decidedBy.startsWith(PARENT)) return why(decidedBy.slice(PARENT.length));
  const layer = decidedBy.slice(0, at);
  if (layer === "default") return "This tool always asks first, until a rule of the agent allows it.";
  return `${OWNERS[layer] ?? layer} asks: ${decidedBy.slice(at + 2)}.`;
}
