/** What a conversation says in passing: stops, compactions, sub-agents, and numbers as one reads them. */
import { textOf, type Frame, type Json } from "./frames.ts";
import type { NoteItem } from "./items.ts";

export function noteOf(frame: Frame, seq: number, text: string, link: string | null): NoteItem {
  const at = textOf(frame.metadata.created_at) || textOf(frame.metadata.event?.created_at);
  return { kind: "note", key: `note-${seq}`, order: seq, seq, at, text, link: link || null };
}

export function stopWords(author: string, note: unknown): string {
  const said = author ? `Stopped by ${author}` : "Stopped";
  return textOf(note) ? `${said}: ${textOf(note)}` : said;
}

export function compaction(payload: Json): string {
  const [before, after] = [payload["tokens_before"], payload["tokens_after"]].map(numberOf);
  if (!before || !after) return "Context compacted";
  return `Context compacted ${thousands(before)} → ${thousands(after)} tokens`;
}

/** A count as one reads it: `812`, `9.4k`, `61k`. */
export function thousands(count: number): string {
  return count < 1000 ? String(count) : `${(count / 1000).toFixed(count < 10_000 ? 1 : 0)}k`;
}

export function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
