/**
 * The transcript as a pure function: frames in, items out.
 *
 * Stored frames count once and in order. Deltas only change the draft, which the stored event
 * replaces. Keep in step with `sessions_app/pages/transcript.py`, which renders the first paint.
 */
import { advance, foldSteps, resolve, type ToolWords } from "./calls.ts";
import { takeCompaction } from "./compactions.ts";
import { addDelta, addOutput, type Draft, pieceIn } from "./deltas.ts";
import { type Frame, frameOf, objectOf, type StoredEvent, textOf } from "./frames.ts";
import { noteOf, numberOf, resourceWords, stopWords, terminalWords, verdictWords } from "./labels.ts";
import {
  acknowledge,
  applyQueue,
  editMessage,
  finishRun,
  type OutgoingMessage,
  type QueueEntry,
  refuse,
  takeMessage,
  takeRun,
  withdrawMessage,
} from "./messages.ts";
import {
  type Action,
  type AgentItem,
  begin,
  type CallItem,
  change,
  insert,
  isCall,
  isError,
  type Item,
  type State,
  type Status,
  type UserItem,
} from "./state.ts";
import { takeBranches, takeChild } from "./subagents.ts";

export function reduce(state: State, action: Action): State {
  switch (action.type) {
    case "frame":
      return action.frame.seq === null
        ? takeDelta(state, action.frame)
        : takeStored(state, action.frame, action.frame.seq);
    case "queue":
      return applyQueue(state, action.entries, action.asOf);
    case "sending":
      return { ...state, outbox: [...without(state.outbox, action.letter.id), action.letter] };
    case "acked":
      return acknowledge(state, action.id, action.seq, action.runId);
    case "refused":
      return refuse(state, action.id, action.reason);
    case "dropped":
      return { ...state, outbox: without(state.outbox, action.id) };
    case "branches":
      return takeBranches(state, action.branches);
    case "questions":
      return { ...state, questions: action.questions };
    case "replaying":
      return { ...state, lacks: false };
  }
}

function without(outbox: readonly OutgoingMessage[], id: string): OutgoingMessage[] {
  return outbox.filter((letter) => letter.id !== id);
}

function takeOutput(state: State, frame: Frame): State {
  const piece = pieceIn(frame);
  if (!piece) return state;
  const items = change(state.items, isCall, (call) =>
    call.key === piece.call && !call.result
      ? { ...call, live: addOutput(call.live, piece.offset, piece.said) }
      : call,
  );
  return items === state.items ? state : { ...state, items };
}

function takeDelta(state: State, frame: Frame): State {
  if (frame.type === "tool") return takeOutput(state, frame);
  const eventId = textOf(frame.metadata.event_id);
  const offset = frame.metadata["offset"];
  if (!eventId || typeof offset !== "number") return state;
  if (state.items.some((item) => item.kind === "agent" && item.key === eventId)) return state;
  const draft = addDelta(state.draft, {
    eventId,
    runId: frame.metadata.run_id ?? null,
    offset,
    content: frame.content ?? "",
  });
  return { ...state, draft, lacks: state.lacks || draft.gap };
}

function takeStored(state: State, frame: Frame, seq: number): State {
  if (seq <= state.seq) return state;
  if (seq > state.seq + 1) return { ...state, lacks: true };
  const next = apply({ ...state, seq }, frame, seq);
  // Checking all calls at every frame would be slow in long sessions.
  return next.status === state.status ? next : settle(next);
}

function apply(state: State, frame: Frame, seq: number): State {
  switch (frame.type) {
    case "assistant":
      return takeAnswer(state, frame, seq);
    case "tool":
      return takeCall(state, frame);
    case "error":
      return takeError(state, frame, seq);
    case "lifecycle":
      if (frame.phase === "start") return takeStart(state, frame, seq);
      if (frame.phase === "end") return takeEnd(state, frame);
      return frame.metadata.event ? takeEvent(state, frame, frame.metadata.event) : state;
  }
}

/** Update the state of open calls after the session's status changed. */
export function settle(state: State): State {
  const items = change(state.items, isCall, (call) => {
    const now = resolve(call, state.status);
    return now === call.state ? call : { ...call, state: now };
  });
  return items === state.items ? state : { ...state, items };
}

function takeAnswer(state: State, frame: Frame, seq: number): State {
  const usage = objectOf(frame.metadata["usage"]);
  const item: AgentItem = {
    kind: "agent",
    key: textOf(frame.metadata.event_id),
    order: seq,
    seq,
    at: textOf(frame.metadata.created_at),
    text: frame.content ?? "",
    model: textOf(frame.metadata["model"]),
    streaming: false,
  };
  return {
    ...state,
    items: insert(state.items, item),
    draft: null,
    tokens: state.tokens + numberOf(usage["input_tokens"]) + numberOf(usage["output_tokens"]),
    cost: state.cost + (Number(usage["cost"]) || 0),
  };
}

function takeCall(state: State, frame: Frame): State {
  const key = textOf(frame.metadata["tool_use_id"]);
  // The call is nearly always among the newest items.
  const at = state.items.findLastIndex((item) => isCall(item) && item.key === key);
  const call = advance(state.items[at] as CallItem | undefined, frame);
  const now = { ...call, state: resolve(call, state.status) };
  const items = at < 0 ? insert(state.items, now) : state.items.with(at, now);
  return { ...state, items };
}

function takeError(state: State, frame: Frame, seq: number): State {
  const runId = frame.metadata.run_id ?? null;
  const item: Item = {
    kind: "error",
    key: textOf(frame.metadata.event_id),
    order: seq,
    seq,
    at: textOf(frame.metadata.created_at),
    message: frame.error ?? "",
    code: textOf(frame.metadata["code"]),
    runId,
    retryable: frame.metadata["retryable"] === true && runId !== null,
    latest: true,
  };
  return { ...state, items: insert(state.items, item), draft: null };
}

function takeStart(state: State, frame: Frame, seq: number): State {
  const runId = frame.metadata.run_id ?? null;
  // A newer run makes retrying earlier errors pointless.
  const items = change(state.items, isError, (item) =>
    item.latest ? { ...item, retryable: false, latest: false } : item,
  );
  const next: State = { ...state, items, status: "running", runId, draft: null };
  return runId ? takeRun(next, runId, seq, textOf(frame.metadata["reason"])) : next;
}

function takeEnd(state: State, frame: Frame): State {
  const reason = textOf(frame.metadata["stop_reason"]);
  const ended = finishRun(state, frame.metadata.run_id ?? null);
  const next: State = {
    ...ended,
    status: reason === "requires_action" ? "requires_action" : "idle",
    runId: null,
    draft: null,
    stopNote: "",
  };
  if (reason !== "interrupted") return next;
  return withNote(next, frame, state.stopNote || "Stopped");
}

/** Apply an event without a specific frame type. */
function takeEvent(state: State, frame: Frame, event: StoredEvent): State {
  const { payload } = event;
  switch (event.type) {
    case "user.message":
      return takeMessage(state, event, textOf(frame.metadata.author));
    case "user.message_edited":
      return editMessage(state, numberOf(payload["seq"]), textOf(payload["text"]));
    case "user.message_withdrawn":
      return withdrawMessage(state, numberOf(payload["seq"]));
    case "user.interrupt":
      return { ...state, stopNote: stopWords(textOf(frame.metadata.author), payload["note"]) };
    case "session.status_changed":
      return { ...state, status: payload["to"] as Status, runId: null, draft: null };
    case "session.context_compacted":
      return takeCompaction(state, frame, payload);
    case "session.child_created":
    case "session.child_idle":
      return takeChild(state, event);
    case "session.resource_attached":
      return withNote(state, frame, resourceWords(payload));
    case "session.outcome_judged":
      return withNote(state, frame, verdictWords(payload));
    case "session.terminal_opened":
      return withNote(state, frame, terminalWords(payload));
    default:
      return state;
  }
}

function withNote(state: State, frame: Frame, text: string, link: string | null = null): State {
  return { ...state, items: insert(state.items, noteOf(frame, state.seq, text, link)) };
}

// --- The data embedded in the page and the initial state

export interface Bootstrap {
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
  /** REST paths. */
  api: string;
  runs: string;
  approvals: string;
  executions: string;
  /** Maximum size of a file in bytes. */
  largest_file: number;
}

/** Events per request. */
const PAGE = 200;

export function readBootstrap(root: ParentNode): Bootstrap {
  const found = root.querySelector("script[id$=chat-opening]");
  if (!found) throw new Error("The chat page lacks #chat-opening.");
  return JSON.parse(found.textContent ?? "") as Bootstrap;
}

/** Return the state at the time the page was rendered. */
export function stateOf(bootstrap: Bootstrap): State {
  const frames = bootstrap.frames;
  let state = replay(frames, bootstrap.first_seq);
  // The server read the status after the events. A fork may end in the middle of a run that isn't
  // its own.
  const runId = bootstrap.status === "running" ? state.runId : null;
  state = settle({ ...state, status: bootstrap.status, runId });
  state = reduce(state, { type: "queue", entries: bootstrap.queue, asOf: bootstrap.last_seq });
  const { tokens, cost } = bootstrap;
  return { ...state, seq: Math.max(state.seq, bootstrap.last_seq), tokens, cost: Number(cost) };
}

function replay(frames: readonly Frame[], firstSeq: number): State {
  return frames.reduce((state, frame) => reduce(state, { type: "frame", frame }), begin(firstSeq));
}

/** Rebuild the state with earlier frames and keep what isn't in the log. */
export function withEarlierFrames(state: State, frames: readonly Frame[], firstSeq: number): State {
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

/** Return the path of the events before this seq, and the first of them. */
export function pageBefore(api: string, seq: number): { path: string; firstSeq: number } {
  const after = Math.max(0, seq - 1 - PAGE);
  return { path: `${api}events/?after=${after}&limit=${seq - 1 - after}&authors=1`, firstSeq: after + 1 };
}

export function framesOf(events: readonly StoredEvent[]): Frame[] {
  return events.map(frameOf);
}

// --- Selectors

export function isBusy(status: Status): boolean {
  return status === "running" || status === "rescheduling" || status === "requires_action";
}

/** Whether the session waits only for sub-agents, not for a person. */
export function waitsForChildren(state: State): boolean {
  if (state.status !== "requires_action" || state.questions.length) return false;
  const open = state.items.filter(isCall).filter((call) => !call.result);
  return open.length > 0 && open.every((call) => call.child?.state === "running");
}

/** Return everything shown in the transcript, in order. */
export function visibleItems(state: State): Item[] {
  const items: Item[] = [...foldSteps(state.items, state.status), ...state.questions];
  if (state.draft?.text) items.push(draftItem(state.draft));
  for (const letter of state.outbox) {
    if (!letter.found && !(letter.state === "sending" && waits(state, letter))) {
      items.push(letterItem(letter));
    }
  }
  return items;
}

/** Whether an outgoing message belongs to the queue rather than the transcript. */
export function waits(state: State, letter: OutgoingMessage): boolean {
  return letter.onBusy === "followup" && (isBusy(state.status) || state.waiting.length > 0);
}

function draftItem(draft: Draft): AgentItem {
  return {
    kind: "agent",
    key: draft.eventId,
    order: Infinity,
    seq: null,
    at: "",
    text: draft.text,
    model: "",
    streaming: true,
  };
}

function letterItem(letter: OutgoingMessage): UserItem {
  return {
    kind: "user",
    key: `letter-${letter.id}`,
    order: Infinity,
    seq: null,
    at: letter.at,
    text: letter.text,
    files: letter.files,
    merged: false,
    author: "",
    edited: false,
    receipt: letter.state,
    runId: null,
    reason: letter.reason,
  };
}
