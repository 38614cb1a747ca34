/**
 * The conversation as a pure function of what arrived: frames in, things to show out.
 *
 * Stored frames count once and in order. Deltas only ever touch the draft, which the stored event
 * replaces. `sessions_app/pages/telling.py` tells the same for the first paint.
 */
import { advance, resolve } from "./calls.ts";
import { takeBranches, takeChild } from "./children.ts";
import { takeCompaction } from "./compactions.ts";
import { addDelta } from "./draft.ts";
import { addOutput, pieceIn } from "./live.ts";
import { objectOf, textOf, type Frame, type StoredEvent } from "./frames.ts";
import {
  change,
  insert,
  isCall,
  isError,
  type AgentItem,
  type CallItem,
  type Item,
  type Status,
} from "./items.ts";
import {
  acknowledge,
  applyQueue,
  editMessage,
  finishRun,
  refuse,
  takeMessage,
  takeRun,
  withdrawMessage,
  type Letter,
} from "./messages.ts";
import { noteOf, numberOf, resourceWords, stopWords, terminalWords, verdictWords } from "./notes.ts";
import type { Action, State } from "./state.ts";

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

function without(outbox: readonly Letter[], id: string): Letter[] {
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
  // Looking through all calls at every frame would cost a long session dear.
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

/** Open calls mean something else when the session does something else. */
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
  // What is spoken of is nearly always among the newest.
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
  // Something newer runs, so what failed before need not be tried again.
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

/** Events without a frame of their own. */
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
