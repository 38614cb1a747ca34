/** What the conversation is made of, as the page shows it. */
import type { CallState, Json } from "./frames.ts";

export type Status = "idle" | "running" | "rescheduling" | "requires_action" | "terminated";

/** What became of a person's message. */
export type Receipt =
  | "sending"
  | "failed"
  | "sent"
  | "queued"
  | "taken"
  | "steered"
  | "answered";

interface Placed {
  key: string;
  /** The seq at whose place it stands. */
  order: number;
  /** Its own seq; null while it is not stored. */
  seq: number | null;
  at: string;
}

export interface UserItem extends Placed {
  kind: "user";
  text: string;
  author: string;
  edited: boolean;
  receipt: Receipt;
  runId: string | null;
  /** Why it was not sent. */
  reason: string;
}

export interface AgentItem extends Placed {
  kind: "agent";
  text: string;
  model: string;
  streaming: boolean;
}

export interface Answered {
  decision: "allow" | "deny";
  note: string;
  author: string;
  at: string;
}

export interface CallItem extends Placed {
  kind: "call";
  name: string;
  input: Json;
  state: CallState;
  runId: string | null;
  decision: string;
  decidedBy: string;
  answer: Answered | null;
  /** How it ended, once it did. */
  result: CallState | null;
  output: unknown;
  error: string;
  durationMs: number | null;
  /** The output is only its beginning; the event of this seq has all of it. */
  clippedAt: number | null;
}

export interface ErrorItem extends Placed {
  kind: "error";
  message: string;
  code: string;
  runId: string | null;
  retryable: boolean;
}

export interface NoteItem extends Placed {
  kind: "note";
  text: string;
  /** A session that it speaks of. */
  link: string | null;
}

export type Item = UserItem | AgentItem | CallItem | ErrorItem | NoteItem;

/** The items with one more at its place, which is nearly always the end. */
export function insert(items: readonly Item[], item: Item): Item[] {
  let at = items.length;
  while (at > 0 && isAfter(items[at - 1]!, item)) at -= 1;
  return items.toSpliced(at, 0, item);
}

function isAfter(one: Item, other: Item): boolean {
  if (one.order !== other.order) return one.order > other.order;
  return (one.seq ?? Infinity) > (other.seq ?? Infinity);
}

/** The items with some of them changed; the same array when none was. */
export function change<T extends Item>(
  items: readonly Item[],
  which: (item: Item) => item is T,
  how: (item: T) => Item,
): readonly Item[] {
  let changed = false;
  const next = items.map((item) => {
    if (!which(item)) return item;
    const other = how(item);
    changed ||= other !== item;
    return other;
  });
  return changed ? next : items;
}

export const isUser = (item: Item): item is UserItem => item.kind === "user";
export const isCall = (item: Item): item is CallItem => item.kind === "call";
export const isError = (item: Item): item is ErrorItem => item.kind === "error";
