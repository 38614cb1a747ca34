/** What a chat page knows of its conversation, what can happen to it, and how it begins. */
import type { Branch } from "./children.ts";
import type { Draft } from "./draft.ts";
import type { Frame } from "./frames.ts";
import type { Item, QuestionItem, Status, UserItem } from "./items.ts";
import type { Letter, QueueEntry } from "./messages.ts";

export interface State {
  /** The last stored frame that was taken. */
  seq: number;
  status: Status;
  runId: string | null;
  items: readonly Item[];
  /** Messages of people that no run has taken yet. */
  waiting: readonly UserItem[];
  /** The queue when the server was last asked. */
  queue: readonly QueueEntry[];
  /** What this page has sent and not yet found in the log. */
  outbox: readonly Letter[];
  draft: Draft | null;
  /** Runs that were seen to start. */
  started: ReadonlySet<string>;
  stopNote: string;
  /** Frames are missing: connect again and replay. */
  lacks: boolean;
  tokens: number;
  /** In dollars, for all answers. */
  cost: number;
  /** The sessions below this one when the server was last asked, and what they ask of people. */
  branches: readonly Branch[];
  questions: readonly QuestionItem[];
}

export type Action =
  | { type: "frame"; frame: Frame }
  | { type: "queue"; entries: readonly QueueEntry[]; asOf: number }
  | { type: "sending"; letter: Letter }
  | { type: "acked"; id: string; seq: number; runId: string | null }
  | { type: "refused"; id: string; reason: string }
  | { type: "dropped"; id: string }
  | { type: "branches"; branches: readonly Branch[] }
  | { type: "questions"; questions: readonly QuestionItem[] }
  | { type: "replaying" };

/** Nothing yet, before the event with this seq. */
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
