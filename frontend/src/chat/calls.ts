/** Tracks tool calls and renders them, alone or folded into steps. */
import { button, clock, copyText, h, icon, say } from "../lib/dom.ts";
import type { Json } from "../lib/rest.ts";
import { type Live, liveText } from "./deltas.ts";
import { type CallState, type Frame, objectOf, textOf } from "./frames.ts";
import type { ChatHost } from "./host.ts";
import { LineList, type Line } from "./renderer.ts";
import type { Answered, CallItem, Item, Status, StepsItem } from "./state.ts";

/** Labels of a tool, provided by the server. */
export interface ToolWords {
  title: string;
  subject: string;
  effects: string;
  /** What "For this session" would allow. */
  covers: string;
}

/** Derive the state of a call from everything known about it. */
export function resolve(call: CallItem, status: Status): CallState {
  if (call.result) return call.result;
  if (call.decision === "deny" || call.answer?.decision === "deny") return "denied";
  if (status === "idle" || status === "terminated") return "unknown";
  if (call.decision === "ask" && !call.answer) return "awaiting_approval";
  return status === "running" ? "running" : "pending";
}

/** Return the call updated by a frame. */
export function advance(known: CallItem | undefined, frame: Frame): CallItem {
  const { metadata } = frame;
  const at = textOf(metadata.created_at);
  const call = known ?? blank(frame, at);
  switch (metadata.event_type) {
    case "agent.tool_use":
    case "agent.custom_tool_use":
      return {
        ...call,
        input: objectOf(frame.tool_input),
        decision: textOf(metadata["decision"]) || "allow",
        decidedBy: textOf(metadata["decided_by"]),
      };
    case "user.tool_confirmation":
      return {
        ...call,
        input: frame.tool_input ? objectOf(frame.tool_input) : call.input,
        answer: {
          decision: metadata["decision"] === "deny" ? "deny" : "allow",
          scope: textOf(metadata["scope"]) || "once",
          again: metadata["again"] === true,
          note: textOf(metadata["note"]),
          author: textOf(metadata.author) || textOf(metadata["answered_by"]),
          at,
        },
        // A retried call drops its earlier result.
        ...(metadata["again"] === true ? { result: null, output: null, error: "" } : {}),
      };
    default:
      return {
        ...call,
        result: frame.tool_state ?? "unknown",
        output: frame.tool_output ?? null,
        error: frame.error ?? "",
        durationMs: durationIn(metadata),
        clippedAt: metadata["clipped"] ? frame.seq : null,
        live: null,
        checkedBy: metadata["verified_by"] ? textOf(metadata.author) || textOf(metadata["verified_by"]) : "",
      };
  }
}

function blank(frame: Frame, at: string): CallItem {
  const call = blankCall(textOf(frame.metadata["tool_use_id"]), frame.seq, at, frame.tool_name);
  return { ...call, runId: frame.metadata.run_id ?? null };
}

/** Return a call with nothing but its position. */
export function blankCall(key: string, seq: number | null, at: string, name?: string): CallItem {
  return {
    kind: "call",
    key,
    order: seq ?? 0,
    seq,
    at,
    name: name || "tool",
    input: {},
    state: "pending",
    runId: null,
    decision: "allow",
    decidedBy: "",
    answer: null,
    result: null,
    output: null,
    error: "",
    durationMs: null,
    clippedAt: null,
    live: null,
    checkedBy: "",
    child: null,
  };
}

function durationIn(metadata: Json): number | null {
  const found = metadata["duration_ms"];
  return typeof found === "number" ? found : null;
}

const SUBJECT_LENGTH = 200;

/** Return a readable title for a tool. */
export function titleOf(name: string, words: ToolWords | undefined): string {
  if (words?.title) return words.title;
  const plain = name.replaceAll(/[_:]/g, " ");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** Return the main argument on one line. */
export function subjectOf(input: Json, words: ToolWords | undefined): string {
  const named = words?.subject ? input[words.subject] : undefined;
  const value = named ?? Object.values(input).find((one) => typeof one === "string") ?? "";
  const line = (typeof value === "string" ? value : JSON.stringify(value)).split(/\s+/).join(" ");
  return line.length <= SUBJECT_LENGTH ? line : `${line.slice(0, SUBJECT_LENGTH - 1)}…`;
}

/** Format a duration: `340 ms`, `1.2 s`, `2 min 5 s`. */
export function duration(ms: number | null): string {
  if (ms === null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** Return a tool result as text. */
export function outputText(output: unknown): string {
  if (output === null || output === undefined) return "";
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}

// --- A tool call as one line that expands to its details

/** State classes and labels. */
export const STATES: Record<CallState, [lamp: string, word: string]> = {
  pending: ["", "Waiting"],
  awaiting_approval: ["is-waiting", "Needs approval"],
  running: ["is-running", "Running"],
  completed: ["is-done", "Done"],
  error: ["is-failed", "Failed"],
  denied: ["is-failed", "Denied"],
  cancelled: ["", "Cancelled"],
  unknown: ["is-unknown", "Outcome unknown"],
};
/** Characters of a result rendered before "Show all". */
const SHOWN = 20_000;

export function callLine(first: CallItem, host: ChatHost): Line {
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
    // New output alone doesn't redraw the details, which may be being read.
    const onlySaid = next.live !== item.live && next.state === item.state;
    item = next;
    const words = host.tools[item.name];
    const [look, said] = STATES[item.state];
    lamp.className = `state ${look}`;
    details.dataset["state"] = item.state;
    say(word, said);
    say(title, titleOf(item.name, words));
    say(subject, subjectOf(item.input, words));
    say(end, endOf(item, said));
    live.update(item.state === "running" ? item.live : null);
    if (details.open && !onlySaid) draw();
  }
  // The details are rendered when they are first opened.
  function draw(): void {
    body.replaceChildren(...insideOf(item, host));
  }
  details.addEventListener("toggle", () => {
    if (details.open) draw();
  });
  update(first);
  // A call that needs a decision is opened.
  if (first.result === "unknown" && host.mayRun) details.open = true;
  return { node, update };
}

/** Return the text at the end of the line: an unusual state and the duration. */
function endOf(item: CallItem, said: string): string {
  const unusual = item.state !== "completed" && item.state !== "running";
  const who = item.answer || item.checkedBy ? ruleOf(item) : "";
  const word = unusual && !(item.state === "denied" && who) ? said : "";
  return [who, word, duration(item.durationMs)].filter(Boolean).join(" · ");
}

function insideOf(item: CallItem, host: ChatHost): HTMLElement[] {
  const parts = [part("Arguments", JSON.stringify(item.input, null, 2))];
  const text = outputText(item.output);
  if (item.error) parts.push(part(item.state === "denied" ? "Reason" : "Error", item.error));
  if (text) parts.push(result(item, text, host));
  else if (item.state === "completed") parts.push(part("Result", "No output"));
  if (item.state === "unknown" && item.result && host.mayRun) parts.push(settling(item, host));
  const rule = ruleOf(item);
  if (rule) parts.push(h("p", { class: "call-rule", text: rule }));
  return parts;
}

/** Let a person settle a call whose outcome is unknown. */
function settling(item: CallItem, host: ChatHost): HTMLElement {
  const wrong = h("p", { class: "field-error", role: "alert", hidden: true });
  const buttons = [
    button("It took effect", () => void attempt(() => host.verify(item.key, true))),
    button("It had no effect", () => void attempt(() => host.verify(item.key, false))),
    button("Run again", () => void attempt(() => host.runAgain(item.key))),
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
  const words = h("p", { text: "It's unknown how this call ended. It won't run again unless you choose to." });
  return h("div", { class: "call-settle" }, words, h("div", { class: "call-settle-end" }, ...buttons), wrong);
}

function result(item: CallItem, text: string, host: ChatHost): HTMLElement {
  const section = part("Result", text.slice(0, SHOWN));
  if (text.length <= SHOWN && item.clippedAt === null) return section;
  const pre = section.querySelector("pre")!;
  const more = button("Show all", () => void whole(), { class: "btn btn-sm btn-quiet" });
  async function whole(): Promise<void> {
    more.disabled = true;
    try {
      pre.textContent = item.clippedAt === null ? text : await host.wholeOutput(item.clippedAt);
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

/** Describe who or what allowed or denied the call. */
export function ruleOf(item: CallItem): string {
  if (item.checkedBy) return `Checked by ${item.checkedBy}`;
  if (item.answer) {
    const verb = verbOf(item.answer);
    const who = item.answer.author ? ` by ${item.answer.author}` : "";
    return `${verb}${who} at ${clock(new Date(item.answer.at))}${item.answer.note ? `: ${item.answer.note}` : ""}`;
  }
  return item.decidedBy ? `Decided by ${item.decidedBy}` : "";
}

// --- Output of a running call, kept scrolled to the end unless the reader scrolled up

const NEAR = 24;

interface LivePart {
  node: HTMLElement;
  /** Show the output so far, or nothing for null. */
  update: (live: Live | null) => void;
}

export function livePart(): LivePart {
  const pre = h("pre", { tabindex: "0", role: "region", "aria-label": "Output so far" });
  const node = h("div", { class: "call-live call-part", hidden: true }, pre);
  let shown: Live | null = null;

  function update(live: Live | null): void {
    if (live === shown) return;
    shown = live;
    const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight <= NEAR;
    pre.textContent = live ? liveText(live) : "";
    node.hidden = !live?.text;
    if (atEnd) pre.scrollTop = pre.scrollHeight;
  }
  return { node, update };
}

// --- Steps: finished calls in a row, folded into one line

/** Fewer calls aren't worth folding. Keep in step with `sessions_app/pages/transcript.py`. */
const FEWEST = 3;
const OVER = new Set<CallState>(["completed", "error", "denied", "cancelled"]);

/** Fold every run of finished calls, except the last one, which may still grow. */
export function foldSteps(items: readonly Item[], status: Status): Item[] {
  const out: Item[] = [];
  let row: CallItem[] = [];
  const close = (isLast: boolean): void => {
    const folds = row.length >= FEWEST && !(isLast && status !== "idle");
    if (folds) out.push(stepsOf(row));
    else out.push(...row);
    row = [];
  };
  for (const item of items) {
    if (isStep(item)) {
      row.push(item);
    } else {
      close(false);
      out.push(item);
    }
  }
  close(true);
  return out;
}

/** Whether a call needs no more attention. */
function isStep(item: Item): item is CallItem {
  return item.kind === "call" && !item.child && OVER.has(item.state);
}

function stepsOf(calls: CallItem[]): StepsItem {
  const { key, order, seq, at } = calls[0]!;
  return { kind: "steps", key: `steps-${key}`, order, seq, at, calls };
}

/** Return the total duration. */
export function spentOn(calls: readonly CallItem[]): number {
  return calls.reduce((sum, call) => sum + (call.durationMs ?? 0), 0);
}

// --- The line of folded steps

export function stepsLine(first: StepsItem, host: ChatHost): Line {
  const lamp = h("span", { class: "state" });
  const words = h("span", { class: "call-title" });
  const wrong = h("span", { class: "steps-wrong" });
  const list = h("ol", { class: "steps-list" });
  const summary = h("summary", {}, lamp, words, wrong, icon("chevron-right"));
  const details = h("details", { class: "call call-row" }, summary, list);
  const flow = new LineList(list, host);
  let item = first;

  function update(next: Item): void {
    if (next.kind !== "steps") return;
    item = next;
    const failed = item.calls.filter((call) => call.state !== "completed").length;
    lamp.className = `state ${failed ? "is-failed" : "is-done"}`;
    const spent = duration(spentOn(item.calls) || null);
    say(words, [`${item.calls.length} steps`, spent].filter(Boolean).join(" · "));
    say(wrong, failed ? `${failed} failed` : "");
    if (details.open) flow.draw(item.calls);
  }
  details.addEventListener("toggle", () => {
    if (details.open) flow.draw(item.calls);
  });
  update(first);
  return { node: h("li", { class: "line is-call" }, details), update };
}
