"""Builds the lines of a transcript from a window of the log, for server-rendered pages.

`frontend/src/chat/transcript.ts` builds the same lines from live frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, ClassVar
from urllib.parse import quote
from uuid import UUID

import orjson
from django.urls import reverse

from sessions_app.approvals.approvals import SCOPE_LABELS
from sessions_app.live.frames import author_name
from sessions_app.live.reader import PartialAnswer
from sessions_app.log.transcript import TranscriptMessage, read_history
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.labels import (
    approval_reason,
    describe_resource,
    describe_terminal,
    describe_verdict,
    duration,
    thousands,
)
from sessions_app.tool_labels import ToolLabel, main_argument, tool_label
from tools_app.policy.rules import covers
from tools_app.registry import registry

E = SessionEvent.Type
WINDOW_EVENTS = 200
#: A window holds fewer events when they are large.
WINDOW_CHARACTERS = 1_500_000
#: Characters of a tool result that a page shows.
MAX_SHOWN_OUTPUT = 20_000
#: Statuses in which a new message has to wait. The page then lists it in the queue.
BUSY = frozenset({"running", "rescheduling", "requires_action"})
#: The lamp and the label of each state of a tool call.
LAMPS = {
    "pending": ("", "Waiting"),
    "awaiting_approval": ("is-waiting", "Needs approval"),
    "running": ("is-running", "Running"),
    "completed": ("is-done", "Done"),
    "error": ("is-failed", "Failed"),
    "denied": ("is-failed", "Denied"),
    "cancelled": ("", "Cancelled"),
    "unknown": ("is-unknown", "Outcome unknown"),
}
CHILD_LAMPS = {
    "running": ("is-running", "At work"),
    "completed": ("is-done", "Done"),
    "failed": ("is-failed", "Failed"),
    "cancelled": ("", "Stopped"),
}
#: Where a person can resolve an error. `errorline.ts` has the same table.
HELP = {
    "budget_reached": ("Raise the budget", "/settings/budgets/"),
    "out_of_credits": ("Add credits", "/settings/budgets/"),
    "provider_not_configured": ("Open settings", "/settings/providers/"),
    "provider_unauthorized": ("Open settings", "/settings/providers/"),
}
#: Fewer finished calls in a row are not folded into one line.
MIN_FOLDED = 3
OVER = frozenset({"completed", "error", "denied", "cancelled"})


@dataclass(frozen=True, kw_only=True)
class Window:
    """Consecutive events of a session, in order."""

    session: Session
    events: list[SessionEvent]
    #: The window shows an earlier state of the session, so no message waits in the queue.
    is_past: bool = False

    @property
    def first_seq(self) -> int:
        return self.events[0].seq if self.events else 1

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    @property
    def has_earlier(self) -> bool:
        return self.first_seq > 1


def newest_window(session: Session, *, before: int | None = None) -> Window:
    """Read the newest events, or the newest before a seq, in one query."""
    events = session.events.select_related("created_by").order_by("-seq")
    if before is not None:
        events = events.filter(seq__lt=before)
    kept: list[SessionEvent] = []
    size = 0
    for event in events[:WINDOW_EVENTS]:
        size += len(orjson.dumps(event.payload, default=str))
        if kept and size > WINDOW_CHARACTERS:
            break
        kept.append(event)
    return Window(session=session, events=kept[::-1])


@dataclass(kw_only=True)
class TranscriptLine:
    """A line of the transcript. `place` is the seq that it is sorted by, if not its own."""

    kind: ClassVar[str]
    seq: int
    at: datetime
    place: int = 0

    @property
    def template(self) -> str:
        return f"pages/chat/line_{self.kind}.html"

    @property
    def order(self) -> tuple[int, int]:
        return self.place or self.seq, self.seq


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of the workspace that is attached to a message."""

    name: str
    url: str


@dataclass(kw_only=True)
class FromPerson(TranscriptLine):
    kind = "person"
    text: str
    author: str
    #: The message joined an answer that was in progress.
    steered: bool = False
    files: list[File] = field(default_factory=list)


@dataclass(kw_only=True)
class FromAgent(TranscriptLine):
    kind = "agent"
    text: str
    model: str = ""
    is_draft: bool = False


@dataclass(kw_only=True)
class Child:
    """A sub-agent's session that a call started."""

    session_id: UUID
    title: str
    task: str
    status: str = "running"
    result: str = ""

    @property
    def lamp(self) -> tuple[str, str]:
        return CHILD_LAMPS.get(self.status, CHILD_LAMPS["cancelled"])


@dataclass(kw_only=True)
class Call(TranscriptLine):
    """A tool call, as the log describes it so far."""

    kind = "call"
    tool_use_id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    decision: str = "allow"
    decided_by: str = ""
    answered: str = ""
    answered_by: str = ""
    answered_at: datetime | None = None
    scope: str = "once"
    note: str = ""
    #: A person ran the call again, or verified whether it took effect.
    again: bool = False
    verified_by: str = ""
    result: str = ""
    output: Any = None
    error: str = ""
    duration_ms: int | None = None
    child: Child | None = None
    #: The session's status, which decides the state of a call without a result.
    session_status: str = "idle"

    @property
    def state(self) -> str:
        """Return the state of the call, one of the keys of `LAMPS`."""
        if self.result:
            return self.result
        if self.decision == "deny" or self.answered == "deny":
            return "denied"
        is_open = self.session_status in {"running", "requires_action", "rescheduling"}
        if not is_open:
            return "unknown"
        if self.decision == "ask" and not self.answered:
            return "awaiting_approval"
        return "running" if self.session_status == "running" else "pending"

    @property
    def lamp(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[0]

    @property
    def state_word(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[1]

    @property
    def words(self) -> ToolLabel:
        return tool_label(self.name)

    @property
    def subject(self) -> str:
        return main_argument(self.name, self.input)

    @property
    def ending(self) -> str:
        """Return who answered and when, the state if it is unusual, and the duration."""
        who = self.rule if self.answered or self.verified_by else ""
        if who and self.answered_at:
            who = f"{who} at {self.answered_at:%H:%M}"
        is_usual = self.state in {"completed", "running"} or (self.state == "denied" and who)
        parts = [who, "" if is_usual else self.state_word, duration(self.duration_ms)]
        return " · ".join(filter(None, parts))

    @property
    def rule(self) -> str:
        """Return who or which rule allowed or denied the call."""
        if self.verified_by:
            return f"Checked by {self.verified_by}"
        if self.answered:
            return " ".join(
                filter(None, (self._verb, self.answered_by and f"by {self.answered_by}"))
            )
        return f"Decided by {self.decided_by}" if self.decided_by else ""

    @property
    def _verb(self) -> str:
        if self.again:
            return "Run again"
        return (
            f"Allowed {SCOPE_LABELS.get(self.scope, 'once')}"
            if self.answered == "allow"
            else "Denied"
        )

    @property
    def covers(self) -> str:
        """Return which calls an approval for the whole session would cover."""
        return covers(registry.get(self.name))

    @property
    def why(self) -> str:
        """Return why the call needs approval."""
        return approval_reason(self.decided_by)

    @property
    def arguments(self) -> str:
        return orjson.dumps(self.input, option=orjson.OPT_INDENT_2, default=str).decode()

    @property
    def said(self) -> str:
        """Return the result as text, cut to what a page shows."""
        whole = self.output
        if not isinstance(whole, str):
            whole = (
                "" if whole is None else orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()
            )
        return whole if len(whole) <= MAX_SHOWN_OUTPUT else f"{whole[:MAX_SHOWN_OUTPUT]}…"


@dataclass(kw_only=True)
class Trouble(TranscriptLine):
    kind = "trouble"
    message: str
    code: str = ""
    run_id: UUID | None = None
    #: Whether to offer a retry. It is no longer offered after a newer run started.
    retryable: bool = False

    @property
    def help(self) -> tuple[str, str] | None:
        """Return the label and the address of a page where a person can resolve the error."""
        return HELP.get(self.code)


@dataclass(kw_only=True)
class Note(TranscriptLine):
    kind = "note"
    text: str


@dataclass(kw_only=True)
class Compaction(TranscriptLine):
    kind = "compaction"
    text: str


@dataclass(kw_only=True)
class Steps(TranscriptLine):
    """Finished calls in a row, folded into one line."""

    kind = "steps"
    calls: list[Call]

    @property
    def words(self) -> str:
        spent = sum(call.duration_ms or 0 for call in self.calls)
        return " · ".join(filter(None, (f"{len(self.calls)} steps", duration(spent or None))))

    @property
    def failed(self) -> int:
        return sum(call.state != "completed" for call in self.calls)


def fold(lines: list[TranscriptLine], *, is_idle: bool) -> list[TranscriptLine]:
    """Fold each row of finished calls into one line, except a last row that may still grow."""
    folded: list[TranscriptLine] = []
    for is_row, group in groupby(lines, _is_finished_call):
        row = list(group)
        may_grow = row[-1] is lines[-1] and not is_idle
        if is_row and len(row) >= MIN_FOLDED and not may_grow:
            calls = [line for line in row if isinstance(line, Call)]
            folded.append(Steps(seq=row[0].seq, at=row[0].at, calls=calls))
        else:
            folded += row
    return folded


def _is_finished_call(line: TranscriptLine) -> bool:
    return isinstance(line, Call) and line.child is None and line.state in OVER


def build_transcript(window: Window, draft: PartialAnswer | None = None) -> list[TranscriptLine]:
    """Return the lines of a window in order, with three queries whatever its length."""
    limit = max(1, len(window.events))
    history = read_history(window.session, after=window.first_seq - 1, limit=limit)
    builder = TranscriptBuilder(
        {message.seq: message for message in history},
        status=window.session.status,
        has_queue=window.session.status in BUSY and not window.is_past,
        withdrawn={e.payload["seq"] for e in window.events if e.type == E.USER_MESSAGE_WITHDRAWN},
    )
    for event in window.events:
        builder.add(event)
    lines = sorted(builder.lines, key=lambda line: line.order)
    if draft and draft.text:
        now = window.events[-1].created_at if window.events else window.session.created_at
        lines.append(FromAgent(seq=window.last_seq + 1, at=now, text=draft.text, is_draft=True))
    return lines


class TranscriptBuilder:
    """Builds lines from events, which are added in the order of the log."""

    def __init__(
        self,
        messages: Mapping[int, TranscriptMessage],
        *,
        status: str,
        has_queue: bool,
        withdrawn: set[int],
    ) -> None:
        self.lines: list[TranscriptLine] = []
        self._messages = messages
        self._status = status
        self._has_queue = has_queue
        self._withdrawn = withdrawn
        self._calls: dict[str, Call] = {}
        self._started: set[UUID] = set()
        #: Messages by the run that processed them.
        self._by_run: defaultdict[UUID, list[FromPerson]] = defaultdict(list)
        self._stop_text = ""

    def add(self, event: SessionEvent) -> None:
        match event.type:
            case E.USER_MESSAGE:
                self._add_person_message(event)
            case E.AGENT_MESSAGE:
                self._add_agent_message(event)
            case E.AGENT_TOOL_USE | E.AGENT_CUSTOM_TOOL_USE:
                self._add_tool_use(event)
            case E.USER_TOOL_CONFIRMATION:
                self._add_confirmation(event)
            case E.AGENT_TOOL_RESULT:
                self._add_result(event)
            case E.ERROR:
                self._add_error(event)
            case _:
                self._add_session_event(event)

    def _add_session_event(self, event: SessionEvent) -> None:
        payload = event.payload
        match event.type:
            case E.USER_INTERRUPT:
                self._stop_text = _stop_text(event)
            case E.STATUS_CHANGED if payload.get("to") == "running":
                self._start_run(event)
            case E.STATUS_IDLE if payload.get("stop_reason") == "interrupted":
                self._add_note(event, self._stop_text or "Stopped")
            case E.CONTEXT_COMPACTED:
                self._add_compaction(event)
            case E.CHILD_CREATED | E.CHILD_IDLE:
                self._add_child(event)
            case E.RESOURCE_ATTACHED:
                self._add_note(event, describe_resource(payload))
            case E.OUTCOME_JUDGED:
                self._add_note(event, describe_verdict(payload))
            case E.TERMINAL_OPENED:
                self._add_note(event, describe_terminal(payload))
            case _:
                pass  # The history has edits applied, and the page's head shows the status.

    def _add_person_message(self, event: SessionEvent) -> None:
        message = self._messages.get(event.seq)
        state = message.receipt.state if message and message.receipt else "answered"
        is_waiting = state == "queued" and self._has_queue
        if is_waiting or event.seq in self._withdrawn:
            return
        run_id = event.processed_run_id
        line = FromPerson(
            seq=event.seq,
            at=event.created_at,
            text=message.text if message else event.payload.get("text", ""),
            author=author_name(event),
            steered=state == "steered" or run_id in self._started,
            files=_attached_files(event),
        )
        self.lines.append(line)
        if run_id and not line.steered:
            self._by_run[run_id].append(line)

    def _start_run(self, event: SessionEvent) -> None:
        """Place a run's messages where the run began, not where they joined the queue."""
        for line in self.lines:
            if isinstance(line, Trouble):
                line.retryable = False  # A newer run started.
        if event.run_id and event.run_id not in self._started:
            self._started.add(event.run_id)
            for message in self._by_run.pop(event.run_id, []):
                message.place = event.seq

    def _add_agent_message(self, event: SessionEvent) -> None:
        text, model = event.payload.get("text", ""), event.payload.get("model") or ""
        self.lines.append(FromAgent(seq=event.seq, at=event.created_at, text=text, model=model))

    def _add_tool_use(self, event: SessionEvent) -> None:
        call = self._call(event)
        call.input = event.payload.get("input") or {}
        call.decision = event.payload.get("decision", "allow")
        call.decided_by = event.payload.get("decided_by", "")

    def _add_confirmation(self, event: SessionEvent) -> None:
        call, payload = self._call(event), event.payload
        call.answered = payload.get("decision", "")
        call.answered_by = author_name(event)
        call.scope, call.note = payload.get("scope", "once"), payload.get("note", "")
        call.answered_at = event.created_at
        if payload.get("input") is not None:
            call.input = payload["input"]
        if payload.get("again"):
            call.again, call.result, call.error, call.output = True, "", "", None

    def _add_result(self, event: SessionEvent) -> None:
        call, payload = self._call(event), event.payload
        call.result = payload.get("state", "completed")
        call.output, call.error = payload.get("output"), payload.get("error") or ""
        call.duration_ms = payload.get("duration_ms")
        if payload.get("verified_by"):
            call.verified_by = author_name(event) or payload["verified_by"]

    def _add_child(self, event: SessionEvent) -> None:
        """Turn the call that started a sub-agent into the sub-agent's card."""
        child_id, payload = _child_id(event), event.payload
        if child_id is None:
            return
        call = self._call(event)
        call.child = call.child or Child(
            session_id=child_id,
            title=payload.get("title") or "Sub-agent",
            task=payload.get("task") or "",
        )
        if event.type == E.CHILD_IDLE:
            call.child.status = payload.get("status") or "completed"
            call.child.result = payload.get("result") or ""

    def _call(self, event: SessionEvent) -> Call:
        """Return the line of the event's call, which may have begun before the window."""
        tool_use_id = str(event.payload.get("tool_use_id", ""))
        if tool_use_id not in self._calls:
            call = Call(
                seq=event.seq,
                at=event.created_at,
                tool_use_id=tool_use_id,
                name=str(event.payload.get("name") or "tool"),
                session_status=self._status,
            )
            self._calls[tool_use_id] = call
            self.lines.append(call)
        return self._calls[tool_use_id]

    def _add_error(self, event: SessionEvent) -> None:
        self.lines.append(
            Trouble(
                seq=event.seq,
                at=event.created_at,
                message=event.payload.get("message", ""),
                code=str(event.payload.get("code", "")),
                run_id=event.run_id,
                retryable=bool(event.payload.get("retryable") and event.run_id),
            )
        )

    def _add_compaction(self, event: SessionEvent) -> None:
        before, after = (event.payload.get(name) for name in ("tokens_before", "tokens_after"))
        if event.payload.get("undone"):
            self._add_note(event, "Compaction undone")
        elif isinstance(before, int) and isinstance(after, int):
            text = f"Context compacted {thousands(before)} → {thousands(after)} tokens"
            self.lines.append(Compaction(seq=event.seq, at=event.created_at, text=text))
        else:
            self._add_note(event, "Context compacted")

    def _add_note(self, event: SessionEvent, text: str) -> None:
        self.lines.append(Note(seq=event.seq, at=event.created_at, text=text))


def _attached_files(event: SessionEvent) -> list[File]:
    # `reverse("session-file")` would fail for a path that the route does not match.
    base = reverse("session-files", args=[event.session_id])
    attachments = event.payload.get("attachments") or []
    return [File(name=file["name"], url=f"{base}{quote(file['path'])}") for file in attachments]


def _stop_text(event: SessionEvent) -> str:
    author, note = author_name(event), event.payload.get("note")
    text = f"Stopped by {author}" if author else "Stopped"
    return f"{text}: {note}" if note else text


def _child_id(event: SessionEvent) -> UUID | None:
    try:
        return UUID(str(event.payload.get("child_session_id")))
    except ValueError:
        return None
