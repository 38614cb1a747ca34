/** Tool calls: what became of each, and how a line speaks of it. */
import type { Json } from "../lib/json.ts";
import { objectOf, textOf, type CallState, type Frame } from "./frames.ts";
import type { CallItem, Status } from "./items.ts";

/** How a tool is spoken of; the server knows. */
export interface ToolWords {
  title: string;
  subject: string;
  effects: string;
  /** What a yes for the whole session would cover. */
  covers: string;
}

/** The one answer to what state a call is in, from all that is known of it. */
export function resolve(call: CallItem, status: Status): CallState {
  if (call.result) return call.result;
  if (call.decision === "deny" || call.answer?.decision === "deny") return "denied";
  if (status === "idle" || status === "terminated") return "unknown";
  if (call.decision === "ask" && !call.answer) return "awaiting_approval";
  return status === "running" ? "running" : "pending";
}

/** The call after a frame that speaks of it. */
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
        // A call of unknown outcome that a person has run again has its result before it.
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

/** A call of which nothing is known yet but where it stands. */
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

/** A tool's name as one would say it. */
export function titleOf(name: string, words: ToolWords | undefined): string {
  if (words?.title) return words.title;
  const plain = name.replaceAll(/[_:]/g, " ");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** The one argument that matters, on one line. */
export function subjectOf(input: Json, words: ToolWords | undefined): string {
  const named = words?.subject ? input[words.subject] : undefined;
  const value = named ?? Object.values(input).find((one) => typeof one === "string") ?? "";
  const line = (typeof value === "string" ? value : JSON.stringify(value)).split(/\s+/).join(" ");
  return line.length <= SUBJECT_LENGTH ? line : `${line.slice(0, SUBJECT_LENGTH - 1)}…`;
}

/** A span of time with its unit: `340 ms`, `1.2 s`, `2 min 5 s`. */
export function duration(ms: number | null): string {
  if (ms === null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** A result as text. */
export function outputText(output: unknown): string {
  if (output === null || output === undefined) return "";
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}
