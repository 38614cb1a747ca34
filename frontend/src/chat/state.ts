/** The state of a chat page: the items of its transcript, and the actions that change it. */
import type { Json } from "../lib/rest.ts";
import type { Draft, Live } from "./deltas.ts";
import type { CallState, Frame } from "./frames.ts";
import type { OutgoingMessage, QueueEntry } from "./messages.ts";
import type { Branch } from "./subagents.ts";


export type Status = "idle" | "running" | "rescheduling" | "requires_action" | "terminated";

/** Progress of a person's message. */
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
  /** Seq that determines its position. */
  order: number;
  /** Its own seq; null while it isn't stored. */
  seq: number | null;
  at: string;
}

/** A file of the session's workspace attached to a message. */
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
  /** Whether it was answered together with others. */
  merged: boolean;
  author: string;
  edited: boolean;
  receipt: Receipt;
  runId: string | null;
  /** Why sending failed. */
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
  /** Whether it was run again after an unknown outcome. */
  again: boolean;
  note: string;
  author: string;
  at: string;
}

/** State of a task delegated to a sub-agent. */
export type ChildState = "running" | "completed" | "failed" | "cancelled";

/** A sub-agent session started by a call. */
export interface Child {
  sessionId: string;
  title: string;
  task: string;
  state: ChildState;
  result: string;
  /** As last counted by the server. */
  agent: string;
  tokens: number;
  cost: number;
  /** Number of its calls that need approval. */
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
  /** Final state, once known. */
  result: CallState | null;
  output: unknown;
  error: string;
  durationMs: number | null;
  /** Seq of the event with the full output, if this one is truncated. */
  clippedAt: number | null;
  /** Output so far, while it runs. */
  live: Live | null;
  /** Who settled its unknown outcome. */
  checkedBy: string;
  child: Child | null;
}

export interface ErrorItem extends Placed {
  kind: "error";
  message: string;
  code: string;
  runId: string | null;
  retryable: boolean;
  /** Whether nothing has run since. */
  latest: boolean;
}

export interface NoteItem extends Placed {
  kind: "note";
  text: string;
  /** A session to link to. */
  link: string | null;
}

export interface CompactionItem extends Placed {
  kind: "compaction";
  text: string;
  snapshotId: string;
  undone: boolean;
  /** Whether it is in effect and can be undone. */
  newest: boolean;
}

/** Consecutive calls, folded. */
export interface StepsItem extends Placed {
  kind: "steps";
  calls: readonly CallItem[];
}

/** A sub-agent's call that needs approval. */
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

/** Insert an item at its position, usually the end. */
export function insert(items: readonly Item[], item: Item): Item[] {
  let at = items.length;
  while (at > 0 && isAfter(items[at - 1]!, item)) at -= 1;
  return items.toSpliced(at, 0, item);
}

function isAfter(one: Item, other: Item): boolean {
  if (one.order !== other.order) return one.order > other.order;
  return (one.seq ?? Infinity) > (other.seq ?? Infinity);
}

/** Change some items; returns the same array if none changed. */
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

// --- State and actions

export interface State {
  /** Seq of the last applied frame. */
  seq: number;
  status: Status;
  runId: string | null;
  items: readonly Item[];
  /** Messages that no run has taken yet. */
  waiting: readonly UserItem[];
  /** The queue as last read from the server. */
  queue: readonly QueueEntry[];
  /** Messages sent by this page that aren't in the log yet. */
  outbox: readonly OutgoingMessage[];
  draft: Draft | null;
  /** Runs whose start was received. */
  started: ReadonlySet<string>;
  stopNote: string;
  /** Whether frames are missing and the socket must reconnect. */
  lacks: boolean;
  tokens: number;
  /** In dollars, all answers together. */
  cost: number;
  /** Sub-agents and their pending approvals, as last read from the server. */
  branches: readonly Branch[];
  questions: readonly QuestionItem[];
}

export type Action =
  | { type: "frame"; frame: Frame }
  | { type: "queue"; entries: readonly QueueEntry[]; asOf: number }
  | { type: "sending"; letter: OutgoingMessage }
  | { type: "acked"; id: string; seq: number; runId: string | null }
  | { type: "refused"; id: string; reason: string }
  | { type: "dropped"; id: string }
  | { type: "branches"; branches: readonly Branch[] }
  | { type: "questions"; questions: readonly QuestionItem[] }
  | { type: "replaying" };

/** Return an empty state before the event with this seq. */
export function begin(firstSeq = 1, tokens = 0): State {
  return {
    seq: firstSeq - 1,
    status: "idle",
    runId: null,
    items: [],
    waiting: [],
    queue: [],
    outbox: [],
    draft: null,
    started: new Set(),
    stopNote: "",
    lacks: false,
    tokens,
    cost: 0,
    branches: [],
    questions: [],
  };
}
