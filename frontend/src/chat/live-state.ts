/**
 * What a chat page knows besides the server's lines, as a pure function of frames.
 *
 * Stored frames count once and in order: each says that there is something new to fetch. Deltas
 * change a draft or the output of a running call, which the server's line then replaces.
 */
import { addDelta, addOutput, type Draft, type Live, pieceIn } from "./deltas.ts";
import { type Frame, textOf } from "./frames.ts";
import type { OutgoingMessage } from "./outbox.ts";
import { type Bootstrap, type ConversationState, isBusy, type QueuedRun, type Status } from "./types.ts";

/** An answer that the model is writing, or that is stored and not fetched yet. */
export interface LiveDraft extends Draft {
  /** Seq of the frame that ended it. */
  endsAt: number | null;
}

export interface LiveState {
  /** Seq of the last stored frame that arrived. */
  seq: number;
  /** Seq of the last event that the lines show. */
  shownSeq: number;
  status: Status;
  runId: string | null;
  queue: readonly QueuedRun[];
  drafts: readonly LiveDraft[];
  /** Output of running calls, by call. */
  outputs: ReadonlyMap<string, Live>;
  /** Messages sent by this page that the lines don't show yet. */
  outbox: readonly OutgoingMessage[];
  /** Whether frames are missing and the socket must reconnect. */
  lacks: boolean;
}

export type Action =
  | { type: "frame"; frame: Frame }
  | { type: "fetched"; conversation: ConversationState }
  | { type: "sending"; message: OutgoingMessage }
  | { type: "acknowledged"; id: string; seq: number }
  | { type: "refused"; id: string; reason: string }
  | { type: "dropped"; id: string }
  | { type: "replaying" };

export function initialState(bootstrap: Bootstrap): LiveState {
  return {
    seq: bootstrap.last_seq,
    shownSeq: bootstrap.last_seq,
    status: bootstrap.status,
    runId: bootstrap.run_id,
    queue: bootstrap.queue,
    drafts: [],
    outputs: new Map(),
    outbox: [],
    lacks: false,
  };
}

export function reduce(state: LiveState, action: Action): LiveState {
  switch (action.type) {
    case "frame":
      return action.frame.seq === null
        ? takeDelta(state, action.frame)
        : takeStored(state, action.frame, action.frame.seq);
    case "fetched":
      return takeFetched(state, action.conversation);
    case "sending":
      return takeOutgoing(state, action.message);
    case "acknowledged":
      return acknowledge(state, action.id, action.seq);
    case "refused":
      return { ...state, outbox: change(state.outbox, action.id, { state: "failed", reason: action.reason }) };
    case "dropped":
      return { ...state, outbox: without(state.outbox, action.id) };
    case "replaying":
      return { ...state, lacks: false };
  }
}

function takeDelta(state: LiveState, frame: Frame): LiveState {
  if (frame.type === "tool") return takeOutput(state, frame);
  const eventId = textOf(frame.metadata.event_id);
  const offset = frame.metadata["offset"];
  if (!eventId || typeof offset !== "number") return state;
  const known = state.drafts.find((draft) => draft.eventId === eventId);
  if (known?.endsAt) return state;
  const runId = frame.metadata.run_id ?? null;
  const isThinking = frame.metadata["kind"] === "thinking";
  const delta = addDelta(known ?? null, { eventId, runId, offset, content: frame.content ?? "", isThinking });
  // An abandoned draft makes room for the next one; thinking stays beside its answer.
  const isKept = (draft: LiveDraft): boolean =>
    draft.endsAt !== null || (draft.isThinking && !isThinking && draft.runId === runId);
  const others = state.drafts.filter(isKept);
  return { ...state, drafts: [...others, { ...delta, endsAt: null }], lacks: state.lacks || delta.gap };
}

function takeOutput(state: LiveState, frame: Frame): LiveState {
  const piece = pieceIn(frame);
  if (!piece) return state;
  const outputs = new Map(state.outputs);
  outputs.set(piece.call, addOutput(outputs.get(piece.call) ?? null, piece.offset, piece.text));
  return { ...state, outputs };
}

function takeStored(state: LiveState, frame: Frame, seq: number): LiveState {
  if (seq <= state.seq) return state;
  if (seq > state.seq + 1) return { ...state, lacks: true };
  const next = takeStatus({ ...state, seq }, frame);
  if (frame.type === "tool") return endCall(next, frame);
  if (frame.metadata.event?.type === "user.message") return findOutgoing(next, frame.metadata.event);
  return isTurnBoundary(frame) ? endDrafts(next, frame) : next;
}

function takeStatus(state: LiveState, frame: Frame): LiveState {
  if (frame.phase === "start") return { ...state, status: "running", runId: frame.metadata.run_id ?? null };
  const event = frame.metadata.event;
  if (event?.type === "session.status_changed") {
    return { ...state, status: event.payload["to"] as Status, runId: null };
  }
  if (frame.phase !== "end") return state;
  const waits = frame.metadata["stop_reason"] === "requires_action";
  return { ...state, status: waits ? "requires_action" : "idle", runId: null };
}

/** Whether no answer is in progress after this frame. */
function isTurnBoundary(frame: Frame): boolean {
  const isStatus = frame.metadata.event?.type === "session.status_changed";
  return frame.type === "assistant" || frame.phase !== undefined || isStatus;
}

/** Keep ended drafts until the server's lines are there, so that nothing flickers. */
function endDrafts(state: LiveState, frame: Frame): LiveState {
  const drafts = state.drafts.map((draft) => (draft.endsAt ? draft : { ...draft, endsAt: frame.seq }));
  const outputs = frame.phase ? new Map<string, Live>() : state.outputs;
  return { ...state, drafts, outputs };
}

function endCall(state: LiveState, frame: Frame): LiveState {
  const call = textOf(frame.metadata["tool_use_id"]);
  if (!state.outputs.has(call) || frame.metadata.event_type !== "agent.tool_result") return state;
  const outputs = new Map(state.outputs);
  outputs.delete(call);
  return { ...state, outputs };
}

function takeFetched(state: LiveState, conversation: ConversationState): LiveState {
  const shownSeq = conversation.last_seq;
  // The answer may be older than the newest frames.
  const isNewest = shownSeq >= state.seq;
  return {
    ...state,
    shownSeq,
    queue: conversation.queue,
    status: isNewest ? conversation.status : state.status,
    runId: isNewest ? conversation.run_id : state.runId,
    drafts: state.drafts.filter((draft) => !draft.endsAt || draft.endsAt > shownSeq),
    outbox: state.outbox.filter((message) => !message.isAcknowledged || message.seq! > shownSeq),
  };
}

// --- Messages on their way

/** Add a message. It stays where it is first shown, in the queue or in the transcript. */
function takeOutgoing(state: LiveState, message: OutgoingMessage): LiveState {
  const isBehindOthers = isBusy(state.status) || state.queue.length > 0 || unshownMessages(state).length > 0;
  const isQueued = message.onBusy === "followup" && isBehindOthers;
  return { ...state, outbox: [...without(state.outbox, message.id), { ...message, isQueued }] };
}

/** Find the outgoing message that became this event: by its acknowledgement, else by its text. */
function findOutgoing(state: LiveState, event: { seq: number; payload: Record<string, unknown> }): LiveState {
  const found =
    state.outbox.find((message) => message.seq === event.seq) ??
    state.outbox.find(
      (message) => message.seq === null && message.state === "sending" && message.text === event.payload["text"],
    );
  return found ? { ...state, outbox: change(state.outbox, found.id, { seq: event.seq }) } : state;
}

/** Record an acknowledgement. The message's frame may arrive before or after it. */
function acknowledge(state: LiveState, id: string, seq: number): LiveState {
  const outbox =
    seq <= state.shownSeq
      ? without(state.outbox, id)
      : change(state.outbox, id, { seq, isAcknowledged: true });
  return { ...state, outbox };
}

function without(outbox: readonly OutgoingMessage[], id: string): OutgoingMessage[] {
  return outbox.filter((message) => message.id !== id);
}

function change(
  outbox: readonly OutgoingMessage[],
  id: string,
  facts: Partial<OutgoingMessage>,
): OutgoingMessage[] {
  return outbox.map((message) => (message.id === id ? { ...message, ...facts } : message));
}

/** Return the messages that no line and no entry of the queue shows yet. */
export function unshownMessages(state: LiveState): OutgoingMessage[] {
  return state.outbox.filter((message) => message.seq === null || message.seq > state.shownSeq);
}

/** Whether an outgoing message belongs to the queue rather than the transcript. */
export function waitsInQueue(message: OutgoingMessage): boolean {
  return message.state === "sending" && message.isQueued;
}
