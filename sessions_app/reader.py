"""Reads a session's log and draft for its viewers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Exists, F, OuterRef, prefetch_related_objects

from config.faults import Invalid, NotFound
from sessions_app import encoding
from sessions_app.encoding import Frame
from sessions_app.models import Draft, Session, SessionEvent, ToolExecution, ToolOutput
from sessions_app.saying import Tail
from sessions_app.stream import group_name

#: What is read at once: so many rows, or fewer when they are large. The first always comes.
PAGE_ROWS = 100
PAGE_BYTES = 1_000_000
READ_PAGE = """
SELECT * FROM (
  SELECT m.*, sum(pg_column_size(m.payload)) OVER (ORDER BY m.seq) AS size_so_far
    FROM (SELECT * FROM session_messages WHERE session_id = %s AND seq > %s ORDER BY seq LIMIT %s) m
) sized WHERE size_so_far - pg_column_size(payload) < %s ORDER BY seq
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The beginning of an answer that is being written."""

    event_id: UUID
    run_id: UUID | None
    text: str


@dataclass(frozen=True, kw_only=True)
class CallTail:
    """The newest output of a call that runs."""

    session_id: UUID
    run_id: UUID | None
    tool_use_id: str
    name: str
    tail: Tail

    def frame(self) -> Frame:
        return self.piece(self.tail.start, self.tail.text)

    def piece(self, offset: int, text: str) -> Frame:
        return encoding.output(
            session_id=self.session_id,
            run_id=self.run_id,
            tool_use_id=self.tool_use_id,
            name=self.name,
            offset=offset,
            text=text,
        )


@dataclass(frozen=True, kw_only=True)
class State:
    """Where a log stands."""

    last_seq: int
    answer: Answer | None
    #: By tool_use_id: what calls that run now have said lately.
    outputs: dict[str, CallTail] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Page:
    """Stored frames in order. The last one when nothing more was in the log."""

    frames: list[Frame]
    is_last: bool


class Log(Protocol):
    """A log that viewers can follow: gap-free numbers, perhaps an answer in the making."""

    @property
    def group(self) -> str: ...

    def state(self) -> State: ...

    def page(self, after: int) -> Page: ...

    def delta(self, answer: Answer, offset: int) -> Frame: ...

    @staticmethod
    def heads(logs: Sequence[Any]) -> dict[str, int]: ...


@dataclass(frozen=True, kw_only=True)
class SessionLog:
    session_id: UUID

    @property
    def group(self) -> str:
        return group_name(self.session_id)

    def state(self) -> State:
        found = Session.objects.filter(pk=self.session_id).values_list("last_seq", flat=True)
        last_seq = found.first()
        if last_seq is None:
            raise NotFound
        return State(last_seq=last_seq, answer=self.answer(), outputs=self.outputs())

    def answer(self) -> Answer | None:
        """The draft, unless it belongs to a holder that lost the lane or to an event that is stored."""
        drafts = Draft.objects.filter(
            ~Exists(SessionEvent.objects.filter(pk=OuterRef("event_id"))),
            session_id=self.session_id,
            epoch=F("session__lane_epoch"),
        )
        draft = drafts.first()
        if draft is None:
            return None
        return Answer(event_id=draft.event_id, run_id=draft.run_id, text=draft.text)

    def outputs(self) -> dict[str, CallTail]:
        """What calls have said that run now, not those that a lost worker left."""
        running = ToolExecution.objects.filter(
            session_id=self.session_id,
            tool_use_id=OuterRef("tool_use_id"),
            state=ToolExecution.State.RUNNING,
        )
        rows = ToolOutput.objects.filter(
            Exists(running), session_id=self.session_id, epoch=F("session__lane_epoch")
        )
        return {
            row.tool_use_id: CallTail(
                session_id=self.session_id,
                run_id=row.run_id,
                tool_use_id=row.tool_use_id,
                name=row.name,
                tail=Tail(start=row.start, text=row.text),
            )
            for row in rows
        }

    def page(self, after: int) -> Page:
        params = [self.session_id, after, PAGE_ROWS, PAGE_BYTES]
        events: list[Any] = list(SessionEvent.objects.raw(READ_PAGE, params))
        prefetch_related_objects([one for one in events if one.created_by_id], "created_by")
        is_small = not events or events[-1].size_so_far < PAGE_BYTES
        return Page(
            frames=[encoding.stored(event) for event in events],
            is_last=is_small and len(events) < PAGE_ROWS,
        )

    def delta(self, answer: Answer, offset: int) -> Frame:
        """The answer's text from this offset on, as a frame."""
        return encoding.delta(
            session_id=self.session_id,
            event_id=answer.event_id,
            run_id=answer.run_id,
            offset=offset,
            text=answer.text[offset:],
        )

    @staticmethod
    def heads(logs: Sequence[SessionLog]) -> dict[str, int]:
        """The last seq of each log, in one query for all."""
        sessions = Session.objects.filter(pk__in=[log.session_id for log in logs])
        return {group_name(pk): seq for pk, seq in sessions.values_list("pk", "last_seq")}


def cursor_in(text: str) -> int:
    """The seq after which a viewer wants to begin."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Invalid("`after` is the seq of an event, a whole number from 0.")
    return int(text)
