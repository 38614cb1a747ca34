/** What a running tool says, until its result replaces it. Offsets count code points. */
import { countPoints, firstPoints } from "./draft.ts";
import { textOf, type Frame } from "./frames.ts";

/** Characters that are kept; the newest count. */
const KEPT = 32_000;

export interface Live {
  /** Code points that were said before the text. */
  start: number;
  text: string;
  /** Code points of the text. */
  points: number;
}

/** The output after one more piece. What does not follow replaces what was known. */
export function addOutput(known: Live | null, offset: number, said: string): Live {
  const follows = known && offset >= known.start && offset <= known.start + known.points;
  const start = follows ? known.start : offset;
  const before = follows ? firstPoints(known.text, offset - known.start) : "";
  return bounded({ start, text: before + said, points: countPoints(before) + countPoints(said) });
}

function bounded(live: Live): Live {
  if (live.text.length <= KEPT) return live;
  let cut = live.text.length - KEPT;
  const code = live.text.charCodeAt(cut);
  if (code >= 0xdc00 && code <= 0xdfff) cut += 1; // not in the middle of a pair
  const lost = countPoints(live.text.slice(0, cut));
  return { start: live.start + lost, text: live.text.slice(cut), points: live.points - lost };
}

/** The text as it is shown: with a mark where its beginning is not. */
export function liveText(live: Live): string {
  return live.start > 0 ? `…\n${live.text}` : live.text;
}

/** The piece in a frame, if it is one. */
export function pieceIn(frame: Frame): { call: string; offset: number; said: string } | null {
  const call = textOf(frame.metadata["tool_use_id"]);
  const offset = frame.metadata["offset"];
  if (frame.type !== "tool" || frame.seq !== null || !call || typeof offset !== "number") return null;
  return { call, offset, said: textOf(frame.tool_output) };
}
