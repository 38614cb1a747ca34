/** A tool call as one line that opens to what was asked and what came back. */
import { duration, outputText, subjectOf, titleOf } from "./calls.ts";
import type { Desk } from "./desk.ts";
import { button, clock, copyText, h, icon, say } from "../lib/dom.ts";
import type { CallState } from "./frames.ts";
import type { Answered, CallItem, Item } from "./items.ts";
import type { Line } from "./lines.ts";
import { livePart } from "./livepart.ts";

/** Which lamp stands for which state, and its word. */
export const LAMPS: Record<CallState, [lamp: string, word: string]> = {
  pending: ["", "Waiting"],
  awaiting_approval: ["is-waiting", "Needs approval"],
  running: ["is-running", "Running"],
  completed: ["is-done", "Done"],
  error: ["is-failed", "Failed"],
  denied: ["is-failed", "Denied"],
  cancelled: ["", "Cancelled"],
  unknown: ["is-unknown", "Outcome unknown"],
};
/** Characters of a result that are drawn; more only when asked for. */
const SHOWN = 20_000;

export function callLine(first: CallItem, desk: Desk): Line {
  const word = h("span", { class: "sr-only" });
  const lamp = h("span", { class: "state" }, word);
  const title = h("span", { class: "call-title" });
  const subject = h("code", { class: "call-subject" });
  const end = h("span", { class: "call-end" });
  const summary = h("summary", {}, lamp, title, subject, end, icon("chevron-right"));
  const body = h("div", { class: "call-body" });
  const details = h("details", { class: "call" }, summary, body);
  const live = livePart();
  const node = h("li", { class: "line is-call" }, details, live.node);
  let item = first;

  function update(next: Item): void {
    if (next.kind !== "call") return;
    // More output is no reason to draw the rest again, which somebody may be reading.
    const onlySaid = next.live !== item.live && next.state === item.state;
    item = next;
    const words = desk.tools[item.name];
    const [look, said] = LAMPS[item.state];
    lamp.className = `state ${look}`;
    details.dataset["state"] = item.state;
    say(word, said);
    say(title, titleOf(item.name, words));
    say(subject, subjectOf(item.input, words));
    say(end, endOf(item, said));
    live.update(item.state === "running" ? item.live : null);
    if (details.open && !onlySaid) draw();
  }
  // What is inside is drawn when somebody looks.
  function draw(): void {
    body.replaceChildren(...insideOf(item, desk));
  }
  details.addEventListener("toggle", () => {
    if (details.open) draw();
  });
  update(first);
  // What needs a person is not hidden in a fold.
  if (first.result === "unknown" && desk.mayRun) details.open = true;
  return { node, update };
}

/** What stands at the end of the line: a word when something is unusual, and how long it took. */
function endOf(item: CallItem, said: string): string {
  const unusual = item.state !== "completed" && item.state !== "running";
  const who = item.answer || item.checkedBy ? ruleOf(item) : "";
  const word = unusual && !(item.state === "denied" && who) ? said : "";
  return [who, word, duration(item.durationMs)].filter(Boolean).join(" · ");
}

function insideOf(item: CallItem, desk: Desk): HTMLElement[] {
  const parts = [part("Arguments", JSON.stringify(item.input, null, 2))];
  const text = outputText(item.output);
  if (item.error) parts.push(part(item.state === "denied" ? "Reason" : "Error", item.error));
  if (text) parts.push(result(item, text, desk));
  else if (item.state === "completed") parts.push(part("Result", "Nothing"));
  if (item.state === "unknown" && item.result && desk.mayRun) parts.push(settling(item, desk));
  const rule = ruleOf(item);
  if (rule) parts.push(h("p", { class: "call-rule", text: rule }));
  return parts;
}

/** Nobody saw how it ended: a person says so, or has it run again. */
function settling(item: CallItem, desk: Desk): HTMLElement {
  const wrong = h("p", { class: "field-error", role: "alert", hidden: true });
  const buttons = [
    button("It took effect", () => void attempt(() => desk.verify(item.key, true))),
    button("It did not", () => void attempt(() => desk.verify(item.key, false))),
    button("Run it again", () => void attempt(() => desk.runAgain(item.key))),
  ];
  async function attempt(does: () => Promise<void>): Promise<void> {
    wrong.hidden = true;
    for (const one of buttons) one.disabled = true;
    try {
      await does();
    } catch (fault) {
      say(wrong, (fault as Error).message);
      wrong.hidden = false;
      for (const one of buttons) one.disabled = false;
    }
  }
  for (const one of buttons) one.className = "btn btn-sm btn-quiet";
  const words = h("p", { text: "Nobody saw how this ended. Nothing is repeated unless you say so." });
  return h("div", { class: "call-settle" }, words, h("div", { class: "call-settle-end" }, ...buttons), wrong);
}

function result(item: CallItem, text: string, desk: Desk): HTMLElement {
  const section = part("Result", text.slice(0, SHOWN));
  if (text.length <= SHOWN && item.clippedAt === null) return section;
  const pre = section.querySelector("pre")!;
  const more = button("Show all", () => void whole(), { class: "btn btn-sm btn-quiet" });
  async function whole(): Promise<void> {
    more.disabled = true;
    try {
      pre.textContent = item.clippedAt === null ? text : await desk.wholeOutput(item.clippedAt);
      more.remove();
    } catch (fault) {
      more.textContent = `${(fault as Error).message} Try again`;
      more.disabled = false;
    }
  }
  section.append(more);
  return section;
}

function part(name: string, text: string): HTMLElement {
  const pre = h("pre", { tabindex: "0", role: "region", "aria-label": name, text });
  const copy = button("Copy", () => void copyText(pre.textContent ?? "", copy), {
    class: "btn btn-bare btn-square btn-xs",
    icon: "copy",
  });
  const head = h("div", { class: "call-part-head" }, h("span", { text: name }), copy);
  return h("div", { class: "call-part" }, head, pre);
}

const EXTENT: Record<string, string> = { session: "for this session", always: "always" };

function verbOf(answer: Answered): string {
  if (answer.again) return "Run again";
  return answer.decision === "deny" ? "Denied" : `Allowed ${EXTENT[answer.scope] ?? "once"}`;
}

/** Who let it run, or did not. */
export function ruleOf(item: CallItem): string {
  if (item.checkedBy) return `Checked by ${item.checkedBy}`;
  if (item.answer) {
    const verb = verbOf(item.answer);
    const who = item.answer.author ? ` by ${item.answer.author}` : "";
    return `${verb}${who} at ${clock(new Date(item.answer.at))}${item.answer.note ? `: ${item.answer.note}` : ""}`;
  }
  return item.decidedBy ? `Decided by ${item.decidedBy}` : "";
}
