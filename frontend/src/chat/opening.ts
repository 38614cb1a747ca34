/** What the page was written with, and the state that follows from it. */
import type { ToolWords } from "./calls.ts";
import { frameOf, type Frame, type StoredEvent } from "./frames.ts";
import type { Status } from "./items.ts";
import type { QueueEntry } from "./messages.ts";
import { begin, type State } from "./state.ts";
import { reduce, settle } from "./transcript.ts";

export interface Opening {
  session_id: string;
  agent: string;
  status: Status;
  title: string;
  first_seq: number;
  last_seq: number;
  tokens: number;
  cost: string;
  frames: Frame[];
  queue: QueueEntry[];
  tools: Record<string, ToolWords>;
  may_run: boolean;
  may_admin: boolean;
  /** Where REST knows this session, and runs. */
  api: string;
  runs: string;
  approvals: string;
  executions: string;
  /** Bytes of the largest file that a session takes. */
  largest_file: number;
}

/** Events that REST is asked for at once. */
const PAGE = 200;

export function openingOf(root: ParentNode): Opening {
  const found = root.querySelector("script[id$=chat-opening]");
  if (!found) throw new Error("The chat page lacks #chat-opening.");
  return JSON.parse(found.textContent ?? "") as Opening;
}

/** The state when the page was written. */
export function stateOf(opening: Opening): State {
  const frames = opening.frames;
  let state = replay(frames, opening.first_seq);
  // The server read it after the events. A copy may end in the midst of a run that is not its own.
  const runId = opening.status === "running" ? state.runId : null;
  state = settle({ ...state, status: opening.status, runId });
  state = reduce(state, { type: "queue", entries: opening.queue, asOf: opening.last_seq });
  const { tokens, cost } = opening;
  return { ...state, seq: Math.max(state.seq, opening.last_seq), tokens, cost: Number(cost) };
}

function replay(frames: readonly Frame[], firstSeq: number): State {
  return frames.reduce((state, frame) => reduce(state, { type: "frame", frame }), begin(firstSeq));
}

/** The same state with a longer past. What is not in the log is carried over. */
export function withPast(state: State, frames: readonly Frame[], firstSeq: number): State {
  let longer = reduce(replay(frames, firstSeq), {
    type: "queue",
    entries: state.queue,
    asOf: state.seq,
  });
  longer = reduce(longer, { type: "branches", branches: state.branches });
  return {
    ...longer,
    status: state.status,
    runId: state.runId,
    draft: state.draft,
    outbox: state.outbox,
    tokens: state.tokens,
    cost: state.cost,
    questions: state.questions,
  };
}

/** Where the page of events before this seq is, and where it begins. */
export function pageBefore(api: string, seq: number): { path: string; firstSeq: number } {
  const after = Math.max(0, seq - 1 - PAGE);
  return { path: `${api}events/?after=${after}&limit=${seq - 1 - after}&authors=1`, firstSeq: after + 1 };
}

export function framesOf(events: readonly StoredEvent[]): Frame[] {
  return events.map(frameOf);
}
