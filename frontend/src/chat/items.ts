/** What the conversation is made of, as the page shows it. */
import type { Json } from "../lib/json.ts";
import type { CallState } from "./frames.ts";

export type { CallState };
import type { Live } from "./live.ts";

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

/** A file of the session's workspace that came with a message. */
export interface Attached {
  name: string;
  path: string;
  media_type: string;
  size: number;
}

export interface UserItem extends Placed {
  kind: "user";
  text: string;
  files: readonly Attached[];
  /** It was answered together with others. */
  merged: boolean;
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
  scope: string;
  /** It was run once more, after its outcome was unknown. */
  again: boolean;
  note: string;
  author: string;
  at: string;
}

/** What became of a task that was given to another session. */
export type ChildState = "running" | "completed" | "failed" | "cancelled";

/** A session that a call has started. */
export interface Child {
  sessionId: string;
  title: string;
  task: string;
  state: ChildState;
  result: string;
  /** What the server counted when it was last asked. */
  agent: string;
  tokens: number;
  cost: number;
  /** Calls of its own that wait for a person. */
  asks: number;
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
  /** What it has said so far, while it runs. */
  live: Live | null;
  /** Who said what became of it, when nobody saw it end. */
  checkedBy: string;
  child: Child | null;
}

export interface ErrorItem extends Placed {
  kind: "error";
  message: string;
  code: string;
  runId: string | null;
  retryable: boolean;
  /** Nothing has run since. */
  latest: boolean;
}

export interface NoteItem extends Placed {
  kind: "note";
  text: string;
  /** A session that it speaks of. */
  link: string | null;
}

export interface CompactionItem extends Placed {
  kind: "compaction";
  text: string;
  snapshotId: string;
  undone: boolean;
  /** The context begins with it, so it can be undone. */
  newest: boolean;
}

/** Calls in a row, folded. */
export interface StepsItem extends Placed {
  kind: "steps";
  calls: readonly CallItem[];
}

/** A call of a session below this one that waits for a person. */
export interface QuestionItem extends Placed {
  kind: "question";
  approvalId: string;
  sessionId: string;
  sessionTitle: string;
  agent: string;
  call: CallItem;
}

export type Item =
  | UserItem
  | AgentItem
  | CallItem
  | ErrorItem
  | NoteItem
  | CompactionItem
  | QuestionItem
  | StepsItem;

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
export const isCompaction = (item: Item): item is CompactionItem => item.kind === "compaction";
export const isError = (item: Item): item is ErrorItem => item.kind === "error";
