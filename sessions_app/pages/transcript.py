"""Builds the lines of a transcript from a window of the log.

The templates `pages/chat/line_*.html` are the only place where a line is drawn: for the first paint,
for the live updates of a chat, for a session's transcript and for its replay. A line has a `key`,
which it keeps as long as it exists, and a `version`, which changes whenever the line looks different.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote
from uuid import UUID

import orjson
from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from agents.providers.base import Part
from sessions_app.branches import Variant
from sessions_app.lanes.queued_messages import QueuedRun, list_queue
from sessions_app.live.frames import THINKING, author_name
from sessions_app.live.reader import PartialAnswer
from sessions_app.log.transcript import TranscriptMessage, build_messages
from sessions_app.models import Approval, Session, SessionEvent, ToolExecution
from sessions_app.pages.labels import (
    describe_resource,
    describe_terminal,
    describe_verdict,
    thousands,
)
from sessions_app.pages.transcript_lines import (
    BUSY,
    HELP,
    OF_THE_MODEL,
    AgentLine,
    CallLine,
    Child,
    CompactionLine,
    CutLine,
    ErrorLine,
    File,
    NoteLine,
    PersonLine,
    QuestionLine,
    StepsLine,
    ThinkingLine,
    TranscriptLine,
    as_json,
)
from tools_app.parts import parse_parts

E = SessionEvent.Type
WINDOW_EVENTS = 200
#: A window holds fewer events when they are large.
WINDOW_CHARACTERS = 1_500_000
#: Characters of a tool result that a page shows.
MAX_SHOWN_OUTPUT = 20_000
#: Fewer finished calls in a row are not folded into one line.
MIN_FOLDED = 3
FINISHED = frozenset({"completed", "error", "denied", "cancelled"})


# Windows


@dataclass(frozen=True, kw_only=True)
class Window:
    """Consecutive events of a session, in order."""

    session: Session
    events: list[SessionEvent]

    @property
    def first_seq(self) -> int:
        return self.events[0].seq if self.events else 1

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    @property
    def has_earlier(self) -> bool:
        return self.first_seq > 1

    @property
    def run_id(self) -> UUID | None:
        """Return the run that is active after the window, if the window shows its start."""
        if self.session.status != Session.Status.RUNNING:
            return None
        starts = (event for event in reversed(self.events) if event.type == E.STATUS_CHANGED)
        return next(
            (event.run_id for event in starts if event.payload.get("to") == "running"), None
        )


def newest_window(session: Session, *, before: int | None = None) -> Window:
    """Read the newest events, or the newest before a seq, in one query."""
    events = session.events.all() if before is None else session.events.filter(seq__lt=before)
    return Window(session=session, events=_newest(_read(events, WINDOW_EVENTS), 1))


def live_window(session: Session, first_seq: int) -> Window:
    """Read the events from `first_seq` on, in one query.

    Once they fill two windows, only the newest are returned, so a page that stays open for long
    does not make every update more expensive. The window then begins at a message, which ends a
    row of calls, so that no line is cut in two.
    """
    events = _newest(_read(session.events.filter(seq__gte=first_seq), 2 * WINDOW_EVENTS), 2)
    if events and events[0].seq > first_seq:
        newest = _newest(events[::-1][:WINDOW_EVENTS], 1)
        starts = (n for n, event in enumerate(newest) if event.type == E.AGENT_MESSAGE)
        events = newest[next(starts, 0) :]
    return Window(session=session, events=events)


def _read(events: QuerySet[SessionEvent], limit: int) -> Iterable[SessionEvent]:
    return events.select_related("created_by").order_by("-seq")[:limit]


def _newest(newest_first: Iterable[SessionEvent], windows: int) -> list[SessionEvent]:
    """Return, in order, as many of these events as fit into so many windows, and at least one."""
    kept: list[SessionEvent] = []
    size = 0
    for event in newest_first:
        size += len(orjson.dumps(event.payload, default=str))
        if kept and size > windows * WINDOW_CHARACTERS:
            break
        kept.append(event)
    return kept[::-1]


# Building lines


def waiting_runs(session: Session) -> list[QueuedRun]:
    """Return the queue as a chat shows it.

    The first message in the queue of an idle session is about to be read, so it is a line.
    """
    queue = list_queue(session)
    return queue if session.status in BUSY else queue[1:]


def build_transcript(
    window: Window, *, queue: Sequence[QueuedRun] = (), draft: PartialAnswer | None = None
) -> list[TranscriptLine]:
    """Return the lines of a window in order, without messages that wait in the queue.

    The number of queries does not depend on the length of the window: two, and two more if it
    has sub-agents.
    """
    waiting = {seq for run in queue for seq in run.message_seqs}
    from_people = [event for event in window.events if event.type == E.USER_MESSAGE]
    history = build_messages(window.session, from_people)
    withdrawn = {e.payload["seq"] for e in window.events if e.type == E.USER_MESSAGE_WITHDRAWN}
    builder = TranscriptBuilder({message.seq: message for message in history})
    for event in window.events:
        if event.seq not in withdrawn and event.seq not in waiting:
            builder.add(event)
    builder.finish(window.session.status)
    lines = sorted(builder.lines, key=lambda line: line.order)
    if any(isinstance(line, CallLine) and line.child for line in lines):
        lines += _follow_children(window.session, lines)
    if draft and draft.text:
        now = window.events[-1].created_at if window.events else window.session.created_at
        key = str(draft.event_id)
        line_type = ThinkingLine if draft.kind == THINKING else AgentLine
        lines.append(line_type(key=key, seq=None, at=now, text=draft.text, is_draft=True))
    return lines


def fold(lines: list[TranscriptLine], *, is_idle: bool) -> list[TranscriptLine]:
    """Fold each row of finished calls into one line, except a last row that may still grow."""
    folded: list[TranscriptLine] = []
    for is_row, group in groupby(lines, _is_finished_call):
        row = list(group)
        may_grow = row[-1] is lines[-1] and not is_idle
        if is_row and len(row) >= MIN_FOLDED and not may_grow:
            calls = [line for line in row if isinstance(line, CallLine)]
            first = calls[0]
            key = f"steps-{first.key}"
            folded.append(StepsLine(key=key, seq=first.seq, at=first.at, calls=calls))
        else:
            folded += row
    return folded


def mark_variants(
    window: Window, lines: Iterable[TranscriptLine], variants: Mapping[int, Variant]
) -> None:
    """Let the first message after each event at which the chat parts show its variant."""
    messages = {line.seq: line for line in lines if isinstance(line, PersonLine) and line.seq}
    for point, variant in variants.items():
        after = [seq for seq in messages if seq > point]
        if after and point + 1 >= window.first_seq:
            messages[min(after)].variant = variant


def _is_finished_call(line: TranscriptLine) -> bool:
    return isinstance(line, CallLine) and line.child is None and line.state in FINISHED


class TranscriptBuilder:
    """Builds lines from events, which are added in the order of the log."""

    def __init__(self, messages: Mapping[int, TranscriptMessage]) -> None:
        self.lines: list[TranscriptLine] = []
        self._messages = messages
        self._calls: dict[str, CallLine] = {}
        self._compactions: list[CompactionLine] = []
        self._started: set[UUID] = set()
        #: Runs that reported an error since they last started.
        self._failed: set[UUID | None] = set()
        #: Messages by the run that reads them.
        self._by_run: defaultdict[UUID, list[PersonLine]] = defaultdict(list)
        self._last_message: PersonLine | AgentLine | None = None
        self._stop_text = ""

    def add(self, event: SessionEvent) -> None:
        match event.type:
            case E.USER_MESSAGE:
                self._add_person_message(event)
            case E.AGENT_MESSAGE:
                self._add_agent_message(event)
            case E.AGENT_THINKING:
                self._add_thinking(event)
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

    def finish(self, status: str) -> None:
        """Determine what depends on everything after an event."""
        for call in self._calls.values():
            call.resolve(status)
        in_effect = [line for line in self._compactions if line.snapshot_id and not line.is_undone]
        for line in in_effect[-1:]:
            line.is_active = True

    def _add_session_event(self, event: SessionEvent) -> None:
        payload = event.payload
        match event.type:
            case E.USER_INTERRUPT:
                self._stop_text = _stop_text(event)
            case E.STATUS_CHANGED if payload.get("to") == "running":
                self._start_run(event)
            case E.STATUS_IDLE:
                self._end_run(event)
            # Before the undo had an event of its own, its compaction was written again, marked.
            case E.CONTEXT_COMPACTED if not payload.get("undone"):
                self._add_compaction(event)
            case E.COMPACTION_UNDONE | E.CONTEXT_COMPACTED:
                self._undo_compaction(event)
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
        receipt = message.receipt if message else None
        run_id = event.processed_run_id or (receipt.run_id if receipt else None)
        line = PersonLine(
            key=f"message-{event.seq}",
            seq=event.seq,
            at=event.created_at,
            text=message.text if message else event.payload.get("text", ""),
            author=author_name(event),
            edited=message.edited if message else False,
            run_id=run_id,
            files=_attached_files(event),
            fork_at=event.seq,
        )
        self.lines.append(line)
        self._last_message = line
        if (receipt and receipt.state == "steered") or run_id in self._started:
            line.receipt = "steered"
        elif event.processed_at:
            line.receipt = "read" if run_id else "answered"
        if run_id and line.receipt != "steered":
            self._by_run[run_id].append(line)

    def _start_run(self, event: SessionEvent) -> None:
        """Place a run's messages where the run began, not where they joined the queue."""
        for line in self.lines:
            if isinstance(line, ErrorLine):
                line.can_retry = False
            elif isinstance(line, CutLine):
                line.can_continue = False
        self._failed.discard(event.run_id)
        if event.run_id and event.run_id not in self._started:
            self._started.add(event.run_id)
            messages = self._by_run[event.run_id]
            for message in messages:
                message.place = event.seq
                message.merged = len(messages) > 1

    def _end_run(self, event: SessionEvent) -> None:
        if event.payload.get("stop_reason") == "interrupted":
            self._add_note(event, self._stop_text or "Stopped")
        self._stop_text = ""
        # A fork that continues after a run's last message includes the end of the run.
        if self._last_message and self._last_message.seq == event.seq - 1:
            self._last_message.fork_at = event.seq
        receipt = "answered"
        if event.payload.get("stop_reason") == "interrupted":
            receipt = "stopped"
        elif event.run_id in self._failed:
            receipt = "unanswered"
        for message in self._by_run[event.run_id] if event.run_id else []:
            message.receipt = receipt

    def _add_agent_message(self, event: SessionEvent) -> None:
        self._last_message = AgentLine(
            key=str(event.pk),
            seq=event.seq,
            at=event.created_at,
            text=event.payload.get("text", ""),
            model=event.payload.get("model") or "",
            fork_at=event.seq,
        )
        self.lines.append(self._last_message)
        self._failed.discard(event.run_id)  # The error was not the end of the run.
        if event.payload.get("partial"):
            self._add_cut(event, "The model stopped sending before this answer was finished.")
        elif event.payload.get("truncated"):
            text = "This answer reached its token limit and is not finished."
            self._add_cut(event, text, can_continue=True)

    def _add_thinking(self, event: SessionEvent) -> None:
        """Add a line, unless the vendor keeps the text to itself."""
        if text := event.payload.get("text", "").strip():
            self.lines.append(
                ThinkingLine(key=str(event.pk), seq=event.seq, at=event.created_at, text=text)
            )

    def _add_cut(self, event: SessionEvent, text: str, *, can_continue: bool = False) -> None:
        line = CutLine(
            key=f"cut-{event.seq}",
            seq=event.seq,
            at=event.created_at,
            text=text,
            event_id=event.pk,
            can_continue=can_continue,
        )
        self.lines.append(line)

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
            call.again, call.result, call.error = True, "", ""
            call.output, call.clipped_at = "", None

    def _add_result(self, event: SessionEvent) -> None:
        call, payload = self._call(event), event.payload
        call.result = payload.get("state", "completed")
        output = payload.get("output")
        if isinstance(output, dict) and (parts := parse_parts(output.get("parts"))):
            call.files = _shown_parts(event, parts)
            output = output.get("text", "")
        text = output if isinstance(output, str) else "" if output is None else as_json(output)
        is_clipped = len(text) > MAX_SHOWN_OUTPUT
        call.output = f"{text[:MAX_SHOWN_OUTPUT]}…" if is_clipped else text
        call.clipped_at = event.seq if is_clipped else None
        call.error = payload.get("error") or ""
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

    def _call(self, event: SessionEvent) -> CallLine:
        """Return the line of the event's call, which may have begun before the window."""
        tool_use_id = str(event.payload.get("tool_use_id", ""))
        if tool_use_id not in self._calls:
            call = CallLine(
                key=f"call-{tool_use_id}",
                seq=event.seq,
                at=event.created_at,
                tool_use_id=tool_use_id,
                name=str(event.payload.get("name") or "tool"),
            )
            self._calls[tool_use_id] = call
            self.lines.append(call)
        return self._calls[tool_use_id]

    def _add_error(self, event: SessionEvent) -> None:
        self._failed.add(event.run_id)
        code = str(event.payload.get("code", ""))
        # After a person added credits or a key, or chose a model, the same run may succeed.
        may_succeed = bool(event.payload.get("retryable")) or code in HELP or code in OF_THE_MODEL
        self.lines.append(
            ErrorLine(
                key=f"error-{event.seq}",
                seq=event.seq,
                at=event.created_at,
                message=event.payload.get("message", ""),
                code=code,
                run_id=event.run_id,
                can_retry=may_succeed and event.run_id is not None,
            )
        )

    def _undo_compaction(self, event: SessionEvent) -> None:
        for line in self._compactions:
            line.is_undone = line.is_undone or line.snapshot_id == event.payload.get("snapshot_id")
        self._add_note(event, "Compaction undone")

    def _add_compaction(self, event: SessionEvent) -> None:
        line = CompactionLine(
            key=f"compaction-{event.seq}",
            seq=event.seq,
            at=event.created_at,
            text=_compaction_text(event.payload),
            snapshot_id=str(event.payload.get("snapshot_id") or ""),
        )
        self._compactions.append(line)
        self.lines.append(line)

    def _add_note(self, event: SessionEvent, text: str) -> None:
        key = f"note-{event.seq}"
        self.lines.append(NoteLine(key=key, seq=event.seq, at=event.created_at, text=text))


def _picture(event: SessionEvent, file: Mapping[str, Any]) -> str:
    """Return the address of an image that was stored as a part."""
    if file.get("type") != "image" or not file.get("sha256"):
        return ""
    return reverse("chat_part", args=[event.session_id, file["sha256"]])


def _shown_parts(event: SessionEvent, parts: Sequence[Part]) -> list[File]:
    """Return the images and files of a tool's result."""
    return [
        File(
            name=part.name,
            path="",
            url=reverse("chat_part", args=[event.session_id, part.sha256]),
            size=part.size,
            media_type=part.media_type,
            picture=_picture(event, part.as_json()),
            pages=part.pages,
        )
        for part in parts
    ]


def _attached_files(event: SessionEvent) -> list[File]:
    # `reverse("session-file")` would fail for a path that the route does not match.
    base = reverse("session-files", args=[event.session_id])
    return [
        File(
            name=file["name"],
            path=path,
            # A browser would follow `..` in a link to another page.
            url=base if ".." in path.split("/") else f"{base}{quote(path)}",
            size=file.get("size"),
            media_type=file.get("media_type") or "",
            picture=_picture(event, file),
            pages=file.get("pages"),
        )
        for file in event.payload.get("attachments") or []
        for path in [file["path"]]
    ]


def _stop_text(event: SessionEvent) -> str:
    author, note = author_name(event), event.payload.get("note")
    text = f"Stopped by {author}" if author else "Stopped"
    return f"{text}: {note}" if note else text


def _compaction_text(payload: Mapping[str, Any]) -> str:
    before, after = payload.get("tokens_before"), payload.get("tokens_after")
    if isinstance(before, int) and isinstance(after, int):
        return f"Context compacted {thousands(before)} → {thousands(after)} tokens"
    return "Context compacted"


def _child_id(event: SessionEvent) -> UUID | None:
    try:
        return UUID(str(event.payload.get("child_session_id")))
    except ValueError:
        return None


# Sub-agents


def _follow_children(session: Session, lines: list[TranscriptLine]) -> list[TranscriptLine]:
    """Fill in what sub-agents have used so far, and return the questions of all below them."""
    children = [line.child for line in lines if isinstance(line, CallLine) and line.child]
    asks = Q(executions__state=ToolExecution.State.AWAITING_APPROVAL)
    rows = Session.objects.filter(
        pk__in=[child.session_id for child in children], workspace=session.workspace_id
    )
    counted = rows.select_related("agent_version").annotate(asking=Count("executions", filter=asks))
    sessions: dict[UUID, Any] = {row.pk: row for row in counted}
    for child in children:
        if row := sessions.get(child.session_id):
            child.agent = row.agent_version.name
            child.tokens = row.input_tokens + row.output_tokens
            child.cost = row.cost
            child.pending_approvals = row.asking if child.status == "running" else 0
    return _questions(session) if any(child.status == "running" for child in children) else []


def _questions(session: Session) -> list[TranscriptLine]:
    """Return the pending approvals of the sessions below this one, oldest first."""
    below = Session.objects.below(session.pk)
    approvals = Approval.objects.for_workspace(session.workspace_id).pending()
    asked = approvals.filter(session__in=below).select_related(
        "session__agent_version", "execution"
    )
    return [
        QuestionLine(
            key=f"approval-{approval.pk}",
            seq=None,
            at=approval.created_at,
            approval_id=approval.pk,
            session_id=approval.session.pk,
            session_title=approval.session.title,
            agent=approval.session.agent_version.name,
            name=approval.execution.name,
            input=approval.input,
            decided_by=approval.reason,
        )
        for approval in asked.order_by("created_at", "pk")
        if approval.session and approval.execution
    ]


def waits_for_children(status: str, lines: list[TranscriptLine]) -> bool:
    """Return whether the session waits only for sub-agents, not for a person."""
    if status != "requires_action" or any(isinstance(line, QuestionLine) for line in lines):
        return False
    calls = [line for line in lines if isinstance(line, CallLine) and not line.result]
    return bool(calls) and all(call.child and call.child.status == "running" for call in calls)
