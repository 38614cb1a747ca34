/** Texts of notes in a transcript, and number formats. */
import type { Json } from "../lib/rest.ts";
import { type Frame, textOf } from "./frames.ts";
import type { NoteItem } from "./state.ts";

export function noteOf(frame: Frame, seq: number, text: string, link: string | null): NoteItem {
  const at = textOf(frame.metadata.created_at) || textOf(frame.metadata.event?.created_at);
  return { kind: "note", key: `note-${seq}`, order: seq, seq, at, text, link: link || null };
}

export function stopWords(author: string, note: unknown): string {
  const said = author ? `Stopped by ${author}` : "Stopped";
  return textOf(note) ? `${said}: ${textOf(note)}` : said;
}

export function compactionWords(payload: Json): string {
  const [before, after] = [payload["tokens_before"], payload["tokens_after"]].map(numberOf);
  if (!before || !after) return "Context compacted";
  return `Context compacted ${thousands(before)} → ${thousands(after)} tokens`;
}

/** Describe an attached, prepared or removed resource. */
export function resourceWords(payload: Json): string {
  const path = textOf(payload["mount_path"]) || "a resource";
  if (payload["attached"] === false) return `Took away ${path}`;
  const reason = textOf(payload["reason"]);
  if (payload["status"] === "failed") return `Could not prepare ${path}${reason ? `: ${reason}` : ""}`;
  return payload["status"] === "ready" ? `Prepared ${path}` : `Attached ${path}`;
}

/** Describe who opened a terminal. */
export function terminalWords(payload: Json): string {
  const who = textOf(payload["opened_by"]);
  return who ? `${who} opened a terminal` : "A terminal was opened";
}

/** Describe the grader's verdict on the outcome. */
export function verdictWords(payload: Json): string {
  const oneLine = (value: unknown) => textOf(value).split(/\s+/).join(" ").trim();
  const [feedback, why] = [oneLine(payload["feedback"]), oneLine(payload["why"])];
  if (payload["status"] === "met") return "Outcome met";
  if (payload["status"] !== "not_met") return why ? `Outcome unclear: ${why}` : "Outcome unclear";
  const times = `${numberOf(payload["returns"])} of ${numberOf(payload["max_returns"])}`;
  const said = payload["returned"] === true ? `Outcome not met, sent back ${times}` : "Outcome not met";
  return feedback ? `${said}: ${feedback}` : said;
}

/** Format a count: `812`, `9.4k`, `61k`. */
export function thousands(count: number): string {
  return count < 1000 ? String(count) : `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)}k`;
}

export function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** Format a cost: `$0.0042`, `$1.20`, or nothing for zero. */
export function money(dollars: number): string {
  if (!(dollars > 0)) return "";
  if (dollars < 0.0001) return "< $0.0001";
  return `$${dollars.toFixed(dollars < 0.1 ? 4 : 2)}`;
}

/** Format a size: `812 B`, `9.4 kB`, `61 MB`. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const [value, unit] = size < 1_000_000 ? [size / 1000, "kB"] : [size / 1_000_000, "MB"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}
