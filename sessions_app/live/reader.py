"""Reads a session's log, draft and running tool output for its viewers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Exists, F, OuterRef, prefetch_related_objects

from core.exceptions import Invalid, NotFound
from sessions_app.live.frames import Frame, encode, encode_delta, encode_event, output_frame
from sessions_app.live.output_buffer import OutputWindow
from sessions_app.live.publisher import Delta, session_group
from sessions_app.models import Draft, Session, SessionEvent, ToolExecution, ToolOutput

#: A page holds this many rows, or fewer when they are large. It always holds at least one.
PAGE_ROWS = 100
PAGE_BYTES = 1_000_000
READ_PAGE = """
SELECT * FROM (
  SELECT m.*, sum(pg_column_size(m.payload)) OVER (ORDER BY m.seq) AS size_so_far
    FROM (SELECT * FROM session_messages WHERE session_id = %s AND seq > %s ORDER BY seq LIMIT %s) m
) sized WHERE size_so_far - pg_column_size(payload) < %s ORDER BY seq
"""


@dataclass(frozen=True, kw_only=True)
class PartialAnswer:
    """The text so far of an answer that the model is still writing."""

    event_id: UUID
    run_id: UUID | None
    text: str
    #: What the text is: `text`, or the `thinking` before it.
    kind: str = "text"


@dataclass(frozen=True, kw_only=True)
class RunningOutput:
    """The newest output of a tool call that is running."""

    session_id: UUID
    run_id: UUID | None
    tool_use_id: str
    name: str
    window: OutputWindow

    def frame(self) -> Frame:
        return self.frame_from(self.window.start)

    def frame_from(self, offset: int) -> Frame:
        """Encode the output from this offset on."""
        body = output_frame(
            session_id=self.session_id,
            run_id=self.run_id,
            tool_use_id=self.tool_use_id,
            name=self.name,
            offset=offset,
            text=self.window.text[offset - self.window.start :],
        )
        return Frame(text=encode(body))


@dataclass(frozen=True, kw_only=True)
class LogState:
    """The end of a log and the text that is not in it yet."""

    last_seq: int
    answer: PartialAnswer | None
    #: Running tool calls by their `tool_use_id`.
    outputs: dict[str, RunningOutput] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FramePage:
    """Stored frames in order. `is_last` says that the log had no more rows."""

    frames: list[Frame]
    is_last: bool


class Log(Protocol):
    """A log that viewers can follow: gap-free numbers, and perhaps a partial answer."""

    @property
    def group(self) -> str: ...

    def state(self) -> LogState: ...

    def page(self, after: int) -> FramePage: ...

    def delta(self, answer: PartialAnswer, offset: int) -> Frame: ...

    @staticmethod
    def last_seqs(logs: Sequence[Any]) -> dict[str, int]: ...


@dataclass(frozen=True, kw_only=True)
class SessionLog:
    session_id: UUID

    @property
    def group(self) -> str:
        return session_group(self.session_id)

    def state(self) -> LogState:
        sessions = Session.objects.filter(pk=self.session_id)
        last_seq = sessions.values_list("last_seq", flat=True).first()
        if last_seq is None:
            raise NotFound
        return LogState(last_seq=last_seq, answer=self.answer(), outputs=self.outputs())

    def answer(self) -> PartialAnswer | None:
        """Return the draft, unless its worker lost the lane or its event is stored already."""
        drafts = Draft.objects.filter(
            ~Exists(SessionEvent.objects.filter(pk=OuterRef("event_id"))),
            session_id=self.session_id,
            epoch=F("session__lane_epoch"),
        )
        draft = drafts.first()
        if draft is None:
            return None
        return PartialAnswer(
            event_id=draft.event_id, run_id=draft.run_id, text=draft.text, kind=draft.kind
        )

    def outputs(self) -> dict[str, RunningOutput]:
        """Return the stored output of running calls, without rows that a lost worker left."""
        running = ToolExecution.objects.filter(
            session_id=self.session_id,
            tool_use_id=OuterRef("tool_use_id"),
            state=ToolExecution.State.RUNNING,
        )
        rows = ToolOutput.objects.filter(
            Exists(running), session_id=self.session_id, epoch=F("session__lane_epoch")
        )
        return {
            row.tool_use_id: RunningOutput(
                session_id=self.session_id,
                run_id=row.run_id,
                tool_use_id=row.tool_use_id,
                name=row.name,
                window=OutputWindow(start=row.start, text=row.text),
            )
            for row in rows
        }

    def page(self, after: int) -> FramePage:
        params = [self.session_id, after, PAGE_ROWS, PAGE_BYTES]
        events: list[Any] = list(SessionEvent.objects.raw(READ_PAGE, params))
        prefetch_related_objects([event for event in events if event.created_by_id], "created_by")
        is_small = not events or events[-1].size_so_far < PAGE_BYTES
        return FramePage(
            frames=[encode_event(event) for event in events],
            is_last=is_small and len(events) < PAGE_ROWS,
        )

    def delta(self, answer: PartialAnswer, offset: int) -> Frame:
        """Encode the answer's text from this offset on."""
        return encode_delta(
            Delta(
                session_id=self.session_id,
                event_id=answer.event_id,
                run_id=answer.run_id,
                offset=offset,
                text=answer.text[offset:],
                kind=answer.kind,
            )
        )

    @staticmethod
    def last_seqs(logs: Sequence[SessionLog]) -> dict[str, int]:
        """Return the last seq of each log by its group, in one query."""
        sessions = Session.objects.filter(pk__in=[log.session_id for log in logs])
        return {session_group(pk): seq for pk, seq in sessions.values_list("pk", "last_seq")}


def parse_cursor(text: str) -> int:
    """Return the seq after which a viewer wants to begin, or raise Invalid."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Invalid("`after` must be the seq of an event: a whole number, 0 or greater.")
    return int(text)
