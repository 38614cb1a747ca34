"""Tells a stretch of the log as a conversation, for the first paint and for pages without a script.

`frontend/src/chat/transcript.ts` tells the same from live frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import quote
from uuid import UUID

from django.urls import reverse

from sessions_app.frames import author_of
from sessions_app.history import Said, read_history
from sessions_app.models import SessionEvent
from sessions_app.pages.lines import (
    Call,
    Child,
    Compaction,
    File,
    FromAgent,
    FromPerson,
    Line,
    Note,
    Trouble,
)
from sessions_app.pages.window import Window
from sessions_app.pages.words import resource_words, terminal_words, thousands, verdict_words
from sessions_app.reader import Answer

E = SessionEvent.Type
#: What a message has to wait behind; the page then lists it in the queue.
BUSY = frozenset({"running", "rescheduling", "requires_action"})


def tell(window: Window, draft: Answer | None = None) -> list[Line]:
    """The lines of a window, each at its place. Three queries, however many there are."""
    most = max(1, len(window.events))
    history = read_history(window.session, after=window.first_seq - 1, limit=most)
    story = Story(
        {one.seq: one for one in history},
        status=window.session.status,
        has_queue=window.session.status in BUSY and not window.is_past,
        withdrawn={e.payload["seq"] for e in window.events if e.type == E.USER_MESSAGE_WITHDRAWN},
    )
    for event in window.events:
        story.take(event)
    lines = sorted(story.lines, key=lambda line: line.order)
    if draft and draft.text:
        now = window.events[-1].created_at if window.events else window.session.created_at
        lines.append(FromAgent(seq=window.last_seq + 1, at=now, text=draft.text, is_draft=True))
    return lines


class Story:
    """Lines under construction."""

    def __init__(
        self, said: Mapping[int, Said], *, status: str, has_queue: bool, withdrawn: set[int]
    ) -> None:
        self.lines: list[Line] = []
        self._said = said
        self._status = status
        self._has_queue = has_queue
        self._withdrawn = withdrawn
        self._calls: dict[str, Call] = {}
        self._started: set[UUID] = set()
        #: Messages by the run that took them.
        self._taken: defaultdict[UUID, list[FromPerson]] = defaultdict(list)
        self._stopper = ""

    def take(self, event: SessionEvent) -> None:
        match event.type:
            case E.USER_MESSAGE:
                self._person(event)
            case E.AGENT_MESSAGE:
                self._agent(event)
            case E.AGENT_TOOL_USE | E.AGENT_CUSTOM_TOOL_USE:
                self._use(event)
            case E.USER_TOOL_CONFIRMATION:
                self._confirmation(event)
            case E.AGENT_TOOL_RESULT:
                self._result(event)
            case E.ERROR:
                self._trouble(event)
            case _:
                self._turn(event)

    def _turn(self, event: SessionEvent) -> None:
        """What happens to the session as a whole."""
        payload = event.payload
        match event.type:
            case E.USER_INTERRUPT:
                self._stopper = stopped_by(event)
            case E.STATUS_CHANGED if payload.get("to") == "running":
                self._start(event)
            case E.STATUS_IDLE if payload.get("stop_reason") == "interrupted":
                self._note(event, self._stopper or "Stopped")
            case E.CONTEXT_COMPACTED:
                self._compaction(event)
            case E.CHILD_CREATED | E.CHILD_IDLE:
                self._child(event)
            case E.RESOURCE_ATTACHED:
                self._note(event, resource_words(payload))
            case E.OUTCOME_JUDGED:
                self._note(event, verdict_words(payload))
            case E.TERMINAL_OPENED:
                self._note(event, terminal_words(payload))
            case _:
                pass  # Edits are in the history; other changes of status show in the page's head.

    def _person(self, event: SessionEvent) -> None:
        said = self._said.get(event.seq)
        state = said.receipt.state if said and said.receipt else "answered"
        waits = state == "queued" and self._has_queue
        if waits or event.seq in self._withdrawn:
            return
        run_id = event.processed_run_id
        line = FromPerson(
            seq=event.seq,
            at=event.created_at,
            text=said.text if said else event.payload.get("text", ""),
            author=author_of(event),
            steered=state == "steered" or run_id in self._started,
            files=files_of(event),
        )
        self.lines.append(line)
        if run_id and not line.steered:
            self._taken[run_id].append(line)

    def _start(self, event: SessionEvent) -> None:
        """Messages stand where their run began, not where they joined the queue."""
        for line in self.lines:
            if isinstance(line, Trouble):
                line.retryable = False  # Something newer runs.
        if event.run_id and event.run_id not in self._started:
            self._started.add(event.run_id)
            for waiting in self._taken.pop(event.run_id, []):
                waiting.place = event.seq

    def _agent(self, event: SessionEvent) -> None:
        text, model = event.payload.get("text", ""), event.payload.get("model") or ""
        self.lines.append(FromAgent(seq=event.seq, at=event.created_at, text=text, model=model))

    def _use(self, event: SessionEvent) -> None:
        call = self._call(event)
        call.input = event.payload.get("input") or {}
        call.decision = event.payload.get("decision", "allow")
        call.decided_by = event.payload.get("decided_by", "")

    def _confirmation(self, event: SessionEvent) -> None:
        call, payload = self._call(event), event.payload
        call.answered = payload.get("decision", "")
        call.answered_by = author_of(event)
        call.scope, call.note = payload.get("scope", "once"), payload.get("note", "")
        call.answered_at = event.created_at
        if payload.get("input") is not None:
            call.input = payload["input"]
        if payload.get("again"):
            call.again, call.result, call.error, call.output = True, "", "", None

    def _result(self, event: SessionEvent) -> None:
        call, payload = self._call(event), event.payload
        call.result = payload.get("state", "completed")
        call.output, call.error = payload.get("output"), payload.get("error") or ""
        call.duration_ms = payload.get("duration_ms")
        if payload.get("verified_by"):
            call.verified_by = author_of(event) or payload["verified_by"]

    def _child(self, event: SessionEvent) -> None:
        """The call that made a child becomes its card, and so does the child's end alone."""
        child_id, payload = child_of(event), event.payload
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
        """The line of the call that this event is about. It may begin before the window does."""
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

    def _trouble(self, event: SessionEvent) -> None:
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

    def _compaction(self, event: SessionEvent) -> None:
        before, after = (event.payload.get(name) for name in ("tokens_before", "tokens_after"))
        if event.payload.get("undone"):
            self._note(event, "Compaction undone")
        elif isinstance(before, int) and isinstance(after, int):
            told = f"Context compacted {thousands(before)} → {thousands(after)} tokens"
            self.lines.append(Compaction(seq=event.seq, at=event.created_at, text=told))
        else:
            self._note(event, "Context compacted")

    def _note(self, event: SessionEvent, text: str, link: UUID | None = None) -> None:
        self.lines.append(Note(seq=event.seq, at=event.created_at, text=text, link=link))


def files_of(event: SessionEvent) -> list[File]:
    """Not by the route of one file: a message may name a path that no route has."""
    here = reverse("session-files", args=[event.session_id])
    named = event.payload.get("attachments") or []
    return [File(name=one["name"], url=f"{here}{quote(one['path'])}") for one in named]


def stopped_by(event: SessionEvent) -> str:
    author, note = author_of(event), event.payload.get("note")
    said = f"Stopped by {author}" if author else "Stopped"
    return f"{said}: {note}" if note else said


def child_of(event: SessionEvent) -> UUID | None:
    try:
        return UUID(str(event.payload.get("child_session_id")))
    except ValueError:
        return None
