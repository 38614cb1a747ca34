/** The answer that is being written, put together from deltas. Offsets count code points. */

export interface Draft {
  eventId: string;
  runId: string | null;
  text: string;
  /** Code points of the text. */
  points: number;
  /** Something is missing: nothing more is shown until a replay brings it. */
  gap: boolean;
}

interface Delta {
  eventId: string;
  runId: string | null;
  offset: number;
  content: string;
}

/** The draft after one more delta. One for another event replaces a draft that was abandoned. */
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

/** A delta that begins inside what is known: a repetition changes nothing, else it is the newer. */
function overlapped(known: Draft, delta: Delta): Draft {
  const text = firstPoints(known.text, delta.offset) + delta.content;
  const points = delta.offset + countPoints(delta.content);
  if (points <= known.points && known.text.startsWith(text)) return { ...known, gap: false };
  return { ...known, text, points, gap: false };
}

function emptyDraft(delta: Delta): Draft {
  return { eventId: delta.eventId, runId: delta.runId, text: "", points: 0, gap: false };
}

export function countPoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** The text up to so many code points. An emoji is one, though a string counts it as two. */
export function firstPoints(text: string, points: number): string {
  let at = 0;
  for (let left = points; left > 0 && at < text.length; left -= 1) {
    at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  }
  return text.slice(0, at);
}
