/** A tool call as one line that opens to what was asked and what came back. */
import { duration, outputText, subjectOf, titleOf } from "./calls.ts";
import type { Desk } from "./desk.ts";
import { button, copyText, h, icon, say } from "./dom.ts";
import type { CallState } from "./frames.ts";
import type { CallItem, Item } from "./items.ts";
import type { Line } from "./lines.ts";

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
  const node = h("li", { class: "line is-call" }, details);
  let item = first;

  function update(next: Item): void {
    if (next.kind !== "call") return;
    item = next;
    const words = desk.tools[item.name];
    const [look, said] = LAMPS[item.state];
    lamp.className = `state ${look}`;
    details.dataset["state"] = item.state;
    say(word, said);
    say(title, titleOf(item.name, words));
    say(subject, subjectOf(item.input, words));
    say(end, endOf(item, said));
    if (details.open) draw();
  }
  // What is inside is drawn when somebody looks.
  function draw(): void {
    body.replaceChildren(...insideOf(item, desk));
  }
  details.addEventListener("toggle", () => {
    if (details.open) draw();
  });
  update(first);
  return { node, update };
}

/** What stands at the end of the line: a word when something is unusual, and how long it took. */
function endOf(item: CallItem, said: string): string {
  const unusual = item.state !== "completed" && item.state !== "running";
  return [unusual ? said : "", duration(item.durationMs)].filter(Boolean).join(" · ");
}

function insideOf(item: CallItem, desk: Desk): HTMLElement[] {
  const parts = [part("Arguments", JSON.stringify(item.input, null, 2))];
  const text = outputText(item.output);
  if (item.error) parts.push(part(item.state === "denied" ? "Reason" : "Error", item.error));
  if (text) parts.push(result(item, text, desk));
  else if (item.state === "completed") parts.push(part("Result", "Nothing"));
  const rule = ruleOf(item);
  if (rule) parts.push(h("p", { class: "call-rule", text: rule }));
  return parts;
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

/** Who let it run, or did not. */
export function ruleOf(item: CallItem): string {
  if (item.answer) {
    const verb = item.answer.decision === "allow" ? "Allowed once" : "Denied";
    const who = item.answer.author ? ` by ${item.answer.author}` : "";
    const at = new Date(item.answer.at);
    const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return `${verb}${who} at ${time}${item.answer.note ? `: ${item.answer.note}` : ""}`;
  }
  return item.decidedBy ? `Decided by ${item.decidedBy}` : "";
}
