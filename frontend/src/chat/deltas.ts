/**
 * Assembles streamed text from deltas: the answer being written and the output of running tools.
 *
 * Offsets count code points.
 */
import { type Frame, textOf } from "./frames.ts";

export interface Draft {
  eventId: string;
  runId: string | null;
  text: string;
  /** Code points of the text. */
  points: number;
  /** Deltas are missing; the text stops growing until a replay fills the gap. */
  gap: boolean;
  /** It is what the model thinks before its answer. */
  isThinking: boolean;
}

interface Delta {
  eventId: string;
  runId: string | null;
  offset: number;
  content: string;
  isThinking?: boolean;
}

/** Add a delta to the draft. A delta for another event replaces an abandoned draft. */
export function addDelta(draft: Draft | null, delta: Delta): Draft {
  const known = draft?.eventId === delta.eventId ? draft : emptyDraft(delta);
  if (delta.offset > known.points) return { ...known, gap: true };
  if (delta.offset === known.points) {
    return {
      ...known,
      text: known.text + delta.content,
      points: known.points + countPoints(delta.content),
      gap: false,
    };
  }
  return overlapped(known, delta);
}

/**
 * Apply a delta that overlaps known text: a repetition changes nothing, anything else replaces the
 * rest.
 */
function overlapped(known: Draft, delta: Delta): Draft {
  const text = firstPoints(known.text, delta.offset) + delta.content;
  const points = delta.offset + countPoints(delta.content);
  if (points <= known.points && known.text.startsWith(text)) return { ...known, gap: false };
  return { ...known, text, points, gap: false };
}

function emptyDraft(delta: Delta): Draft {
  return { eventId: delta.eventId, runId: delta.runId, text: "", points: 0, gap: false, isThinking: delta.isThinking ?? false };
}

export function countPoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Return the first code points of a text. An emoji is one, though a string counts it as two. */
export function firstPoints(text: string, points: number): string {
  let at = 0;
  for (let left = points; left > 0 && at < text.length; left -= 1) {
    at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  }
  return text.slice(0, at);
}

// --- Output of running tools

/** Characters kept, from the end. */
const KEPT = 32_000;

export interface Live {
  /** Code points of output before `text`. */
  start: number;
  text: string;
  /** Code points of the text. */
  points: number;
}

/** Add a piece of output. A piece that doesn't follow replaces what was known. */
export function addOutput(known: Live | null, offset: number, piece: string): Live {
  const follows = known && offset >= known.start && offset <= known.start + known.points;
  const start = follows ? known.start : offset;
  const before = follows ? firstPoints(known.text, offset - known.start) : "";
  return bounded({ start, text: before + piece, points: countPoints(before) + countPoints(piece) });
}

function bounded(live: Live): Live {
  if (live.text.length <= KEPT) return live;
  let cut = live.text.length - KEPT;
  const code = live.text.charCodeAt(cut);
  if (code >= 0xdc00 && code <= 0xdfff) cut += 1; // keep surrogate pairs together
  const lost = countPoints(live.text.slice(0, cut));
  return { start: live.start + lost, text: live.text.slice(cut), points: live.points - lost };
}

/** Return the output as shown, with a mark if its beginning is missing. */
export function liveText(live: Live): string {
  return live.start > 0 ? `…\n${live.text}` : live.text;
}

/** Read a piece of tool output from a frame, or return null. */
export function pieceIn(frame: Frame): { call: string; offset: number; text: string } | null {
  const call = textOf(frame.metadata["tool_use_id"]);
  const offset = frame.metadata["offset"];
  if (frame.type !== "tool" || frame.seq !== null || !call || typeof offset !== "number") return null;
  return { call, offset, text: textOf(frame.tool_output) };
}
