"""Encodes frames: once per frame and process, not once per viewer."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from uuid import UUID

import orjson

from sessions_app.frames import Body, delta_frame, frame_of, output_frame
from sessions_app.models import SessionEvent

#: Characters of encoded frames that a process remembers.
MOST_REMEMBERED = 16_000_000
TURN_BOUNDARIES = frozenset(
    {SessionEvent.Type.STATUS_IDLE, SessionEvent.Type.STATUS_CHANGED, SessionEvent.Type.ERROR}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """A frame as it goes over the wire, with what the way there must know about it."""

    text: str
    seq: int | None = None
    #: The answer that it stores or, as a delta, continues.
    answer_id: UUID | None = None
    #: After it no answer is being written.
    ends_answer: bool = False
    #: The call that has its result now.
    ends_call: str | None = None
    #: No call that was running before goes on.
    ends_turn: bool = False


class Memory:
    """The newest encoded frames of this process."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
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
            while self._size > self._most:
                _, oldest = self._frames.popitem(last=False)
                self._size -= len(oldest.text)


memory = Memory()


def stored(event: SessionEvent) -> Frame:
    """The frame of a stored event."""
    # The only thing about an event that ever changes, and it changes once.
    key = (event.pk, event.processed_at is None)
    frame = memory.get(key)
    if frame is None:
        is_answer = event.type == SessionEvent.Type.AGENT_MESSAGE
        frame = Frame(
            text=encode(frame_of(event)),
            seq=event.seq,
            answer_id=event.pk if is_answer else None,
            ends_answer=is_answer or event.type in TURN_BOUNDARIES,
            ends_call=_ended_call(event),
            ends_turn=event.type in TURN_BOUNDARIES,
        )
        memory.put(key, frame)
    return frame


def _ended_call(event: SessionEvent) -> str | None:
    if event.type != SessionEvent.Type.AGENT_TOOL_RESULT:
        return None
    return str(event.payload.get("tool_use_id"))


def output(
    *, session_id: UUID, run_id: UUID | None, tool_use_id: str, name: str, offset: int, text: str
) -> Frame:
    body = output_frame(
        session_id=session_id,
        run_id=run_id,
        tool_use_id=tool_use_id,
        name=name,
        offset=offset,
        text=text,
    )
    return Frame(text=encode(body))


def delta(
    *, session_id: UUID, event_id: UUID, run_id: UUID | None, offset: int, text: str
) -> Frame:
    body = delta_frame(
        session_id=session_id, event_id=event_id, run_id=run_id, offset=offset, text=text
    )
    return Frame(text=encode(body), answer_id=event_id)


def encode(body: Body) -> str:
    try:
        return orjson.dumps(body).decode()
    except TypeError:  # whole numbers beyond 64 bits, which JSON has and orjson has not
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
