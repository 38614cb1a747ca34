"""Builds the frames that viewers receive: stored events, live text, acknowledgements and errors.

The `*_frame` functions return a JSON body. The `encode_*` functions return a `Frame`, encoded once
for all viewers of a process.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from core.ids import made_at
from core.websocket import encode_frame
from sessions_app.live.publisher import Delta
from sessions_app.models import SessionEvent, ToolExecution

Body: TypeAlias = dict[str, Any]
#: The id that a client gave its command. It is returned unchanged.
ClientId: TypeAlias = str | int | None
Type = SessionEvent.Type

#: The kind of a frame with thinking. A frame with an answer has none.
THINKING = "thinking"
#: Tool states that a frame names differently than the table does.
FRAME_STATES = {ToolExecution.State.REQUESTED.value: "pending"}
DECISION_STATES = {"allow": "pending", "ask": "awaiting_approval", "deny": "denied"}


def event_frame(event: SessionEvent) -> Body:
    """Return the frame of a stored event. Payload fields that the frame lacks go to `metadata`."""
    payload = dict(event.payload)
    match Type(event.type):
        case Type.AGENT_MESSAGE:
            frame = {"type": "assistant", "content": payload.pop("text", "")}
        case Type.AGENT_THINKING:
            frame = _thinking(payload)
        case Type.AGENT_TOOL_USE | Type.AGENT_CUSTOM_TOOL_USE:
            frame = _tool_use(payload)
        case Type.AGENT_TOOL_RESULT:
            frame = _tool_result(payload)
        case Type.USER_TOOL_CONFIRMATION:
            frame = _tool_confirmation(payload)
        case Type.USER_CUSTOM_TOOL_RESULT:
            frame = _custom_tool_result(payload)
        case Type.ERROR:
            frame = {"type": "error", "phase": "error", "error": payload.pop("message", "")}
        case Type.STATUS_IDLE | Type.STATUS_CHANGED if phase := _phase(event):
            frame = {"type": "lifecycle", "phase": phase}
        case (
            Type.STATUS_IDLE
            | Type.STATUS_CHANGED
            | Type.USER_MESSAGE
            | Type.USER_MESSAGE_EDITED
            | Type.USER_MESSAGE_WITHDRAWN
            | Type.USER_INTERRUPT
            | Type.CONTEXT_COMPACTED
            | Type.COMPACTION_UNDONE
            | Type.CHILD_CREATED
            | Type.CHILD_IDLE
            | Type.RESOURCE_ATTACHED
            | Type.OUTCOME_JUDGED
            | Type.TERMINAL_OPENED
            | Type.CONTEXT_NOTED
        ):
            frame = {"type": "lifecycle"}
            payload = {"event": event_body(event)}
    return {**frame, "metadata": {**payload, **_event_metadata(event)}, "seq": event.seq}


def _phase(event: SessionEvent) -> str:
    """Return what a change of status begins or ends: a run, or nothing."""
    if event.type == Type.STATUS_IDLE:
        return "end"
    return "start" if event.payload.get("to") == "running" else ""


def _thinking(payload: Body) -> Body:
    payload.pop("provider_state", None)  # Only its vendor can read it.
    payload["kind"] = THINKING
    return {"type": "assistant", "content": payload.pop("text", "")}


def _tool_use(payload: Body) -> Body:
    return {
        "type": "tool",
        "tool_name": payload.pop("name", ""),
        "tool_state": DECISION_STATES.get(payload.get("decision", "allow"), "pending"),
        "tool_input": payload.pop("input", {}),
    }


def _tool_result(payload: Body) -> Body:
    state = payload.pop("state", "completed")
    frame = {
        "type": "tool",
        "tool_name": payload.pop("name", ""),
        "tool_state": FRAME_STATES.get(state, state),
        "tool_output": payload.pop("output", None),
    }
    return _with_error(frame, payload.pop("error", None))


def _tool_confirmation(payload: Body) -> Body:
    frame: Body = {
        "type": "tool",
        "tool_state": "denied" if payload.get("decision") == "deny" else "pending",
    }
    if name := payload.pop("name", None):
        frame["tool_name"] = name
    if (changed := payload.pop("input", None)) is not None:
        frame["tool_input"] = changed
    return frame


def _custom_tool_result(payload: Body) -> Body:
    output, failed = payload.pop("output", None), payload.get("is_error")
    frame: Body = {
        "type": "tool",
        "tool_state": "error" if failed else "completed",
        "tool_output": output,
    }
    if name := payload.pop("name", None):
        frame["tool_name"] = name
    return _with_error(frame, output if failed else None)


def _with_error(frame: Body, error: object) -> Body:
    return {**frame, "error": error if isinstance(error, str) else str(error)} if error else frame


def author_name(event: SessionEvent) -> str:
    """Return the name of the person who wrote the event, or "" for agents and the server."""
    return event.created_by.display_name if event.created_by else ""


def _event_metadata(event: SessionEvent) -> Body:
    author = author_name(event)
    return {
        **({"author": author} if author else {}),
        "session_id": str(event.session_id),
        "run_id": event.run_id and str(event.run_id),
        "event_id": str(event.pk),
        "event_type": event.type,
        "created_at": iso_timestamp(event.created_at),
    }


def event_body(event: SessionEvent) -> Body:
    """Return an event as the API shows it, with the run that processed it."""
    return {
        "id": str(event.pk),
        "session_id": str(event.session_id),
        "seq": event.seq,
        "type": event.type,
        "payload": event.payload,
        "run_id": event.run_id and str(event.run_id),
        "created_at": iso_timestamp(event.created_at),
        "processed_at": event.processed_at and iso_timestamp(event.processed_at),
        "processed_run_id": event.processed_run_id and str(event.processed_run_id),
    }


def iso_timestamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def delta_frame(delta: Delta) -> Body:
    """Return the frame of new text of an answer in progress. `offset` counts code points."""
    is_thinking = delta.kind == THINKING
    event_type = Type.AGENT_THINKING if is_thinking else Type.AGENT_MESSAGE
    return {
        "type": "assistant",
        "content": delta.text,
        "metadata": {
            "session_id": str(delta.session_id),
            "run_id": delta.run_id and str(delta.run_id),
            "event_id": str(delta.event_id),
            "event_type": event_type.value,
            **({"kind": THINKING} if is_thinking else {}),
            "created_at": iso_timestamp(made_at(delta.event_id)),
            "offset": delta.offset,
        },
        "seq": None,
    }


def output_frame(
    *, session_id: UUID, run_id: UUID | None, tool_use_id: str, name: str, offset: int, text: str
) -> Body:
    """Return the frame of new output of a running call. `offset` counts code points.

    The frame of the call's result replaces all of it.
    """
    return {
        "type": "tool",
        "tool_name": name,
        "tool_state": "running",
        "tool_output": text,
        "metadata": {
            "session_id": str(session_id),
            "run_id": run_id and str(run_id),
            "tool_use_id": tool_use_id,
            "offset": offset,
        },
        "seq": None,
    }


def ack_frame(*, id: ClientId, **facts: Any) -> Body:
    """Return the frame which confirms that the client's command with this id is in the log."""
    return {"type": "ack", "id": id, **facts}


def error_frame(*, code: str, error: str, id: ClientId = None) -> Body:
    """Return the frame that says why a command was refused. The socket stays usable."""
    return {"type": "error", "id": id, "code": code, "error": error, "metadata": {}, "seq": None}


#: Characters of encoded frames that a process caches.
CACHE_SIZE = 16_000_000
ANSWERS = frozenset({SessionEvent.Type.AGENT_MESSAGE, SessionEvent.Type.AGENT_THINKING})
TURN_BOUNDARIES = frozenset(
    {SessionEvent.Type.STATUS_IDLE, SessionEvent.Type.STATUS_CHANGED, SessionEvent.Type.ERROR}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """An encoded frame, with the facts that feeds and viewers need about it."""

    text: str
    seq: int | None = None
    #: The new text of an answer in progress.
    delta: Delta | None = None
    #: The answer that this frame stores or, as a delta, continues.
    answer_id: UUID | None = None
    #: No answer is in progress after this frame.
    ends_answer: bool = False
    #: The call whose result this frame holds.
    ends_call: str | None = None
    #: No call that was running before this frame still runs.
    ends_turn: bool = False

    @cached_property
    def websocket_bytes(self) -> bytes:
        """The frame as it is written to a WebSocket, made once for all viewers."""
        return encode_frame(self.text.encode())


class FrameCache:
    """Caches the most recently used encoded frames, up to a number of characters."""

    def __init__(self, max_size: int = CACHE_SIZE) -> None:
        self._max_size = max_size
        self._size = 0
        self._frames: OrderedDict[tuple[UUID, bool], Frame] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[UUID, bool]) -> Frame | None:
        with self._lock:
            if frame := self._frames.get(key):
                self._frames.move_to_end(key)
            return frame

    def put(self, key: tuple[UUID, bool], frame: Frame) -> None:
        with self._lock:
            if key in self._frames:
                return
            self._frames[key] = frame
            self._size += len(frame.text)
            while self._size > self._max_size:
                _, oldest = self._frames.popitem(last=False)
                self._size -= len(oldest.text)


frame_cache = FrameCache()


def encode_event(event: SessionEvent) -> Frame:
    # `processed_at` is the only field of an event that ever changes, and it changes once.
    key = (event.pk, event.processed_at is None)
    frame = frame_cache.get(key)
    if frame is None:
        is_answer = event.type in ANSWERS
        frame = Frame(
            text=encode(event_frame(event)),
            seq=event.seq,
            answer_id=event.pk if is_answer else None,
            ends_answer=is_answer or event.type in TURN_BOUNDARIES,
            ends_call=_ended_call(event),
            ends_turn=event.type in TURN_BOUNDARIES,
        )
        frame_cache.put(key, frame)
    return frame


def encode_delta(delta: Delta) -> Frame:
    return Frame(text=encode(delta_frame(delta)), delta=delta, answer_id=delta.event_id)


def join_deltas(frames: list[Frame]) -> list[Frame]:
    """Join each row of deltas of one answer that follow each other into one frame."""
    rows: list[list[Frame]] = []
    for frame in frames:
        if rows and _continues(rows[-1][-1].delta, frame.delta):
            rows[-1].append(frame)
        else:
            rows.append([frame])
    return [row[0] if len(row) == 1 else _join(tuple(row)) for row in rows]


def _continues(last: Delta | None, delta: Delta | None) -> bool:
    """Return whether a client that received the first delta can take the second."""
    if last is None or delta is None or last.event_id != delta.event_id:
        return False
    return last.offset <= delta.offset <= last.offset + len(last.text)


@lru_cache(maxsize=64)  # viewers that are equally far behind need the same frame
def _join(frames: tuple[Frame, ...]) -> Frame:
    first, *deltas = [frame.delta for frame in frames if frame.delta]
    text = first.text
    for delta in deltas:
        text = text[: delta.offset - first.offset] + delta.text
    return encode_delta(replace(first, text=text))


def _ended_call(event: SessionEvent) -> str | None:
    if event.type != SessionEvent.Type.AGENT_TOOL_RESULT:
        return None
    return str(event.payload.get("tool_use_id"))


def encode(body: Body) -> str:
    try:
        return orjson.dumps(body).decode()
    except TypeError:  # orjson refuses integers beyond 64 bits.
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


#: Tells viewers to read the queue again: its order has changed, which no event records.
QUEUE_MOVED = Frame(text=encode({"type": "queue"}))
