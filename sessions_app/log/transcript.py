"""The conversation of a session: its messages in their newest wording, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.db.models import Q

from sessions_app.models import Run, Session, SessionEvent

EventType = SessionEvent.Type
MESSAGE_TYPES = [EventType.USER_MESSAGE, EventType.AGENT_MESSAGE]
CHANGE_TYPES = [EventType.USER_MESSAGE_EDITED, EventType.USER_MESSAGE_WITHDRAWN]

ReceiptState: TypeAlias = Literal["queued", "merged", "steered", "answered", "failed", "withdrawn"]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The state of a person's message, and the run that took it."""

    state: ReceiptState
    run_id: UUID | None


@dataclass(frozen=True, kw_only=True)
class TranscriptMessage:
    """One message. An agent's message has no receipt, a person's no model and no usage."""

    id: UUID
    seq: int
    role: Literal["user", "assistant"]
    text: str
    attachments: list[dict[str, Any]]
    edited: bool
    model: str | None
    usage: dict[str, Any] | None
    run_id: UUID | None
    receipt: Receipt | None
    created_at: datetime


def read_history(session: Session, *, after: int = 0, limit: int) -> list[TranscriptMessage]:
    """Return the first messages after this seq, in order."""
    messages = session.events.filter(type__in=MESSAGE_TYPES).after(after)
    return build_messages(session, list(messages[:limit]))


def newest_history(session: Session, *, limit: int) -> list[TranscriptMessage]:
    """Return the newest messages, in order."""
    messages = session.events.filter(type__in=MESSAGE_TYPES).order_by("-seq")
    return build_messages(session, list(messages[:limit])[::-1])


def messages_seen_by_agent(
    session: Session, events: Sequence[SessionEvent]
) -> list[TranscriptMessage]:
    """Return these messages in their newest wording, without those that no agent has read."""
    unread = ("queued", "withdrawn")
    messages = build_messages(session, events)
    return [m for m in messages if m.receipt is None or m.receipt.state not in unread]


def build_messages(session: Session, events: Sequence[SessionEvent]) -> list[TranscriptMessage]:
    """Return these messages in their newest wording, with two queries for all of them."""
    from_people = [event for event in events if event.type == EventType.USER_MESSAGE]
    edits, withdrawn = message_changes(session, [event.seq for event in from_people])
    runs = _runs(session, from_people)
    return [
        _message(
            event,
            edits.get(event.seq),
            _receipt(event, runs, event.seq in withdrawn)
            if event.type == EventType.USER_MESSAGE
            else None,
        )
        for event in events
    ]


def _message(event: SessionEvent, edit: str | None, receipt: Receipt | None) -> TranscriptMessage:
    payload = event.payload
    return TranscriptMessage(
        id=event.pk,
        seq=event.seq,
        role="user" if receipt else "assistant",
        text=edit if edit is not None else payload.get("text", ""),
        attachments=payload.get("attachments") or [],
        edited=edit is not None,
        model=payload.get("model"),
        usage=payload.get("usage"),
        run_id=receipt.run_id if receipt else event.run_id,
        receipt=receipt,
        created_at=event.created_at,
    )


def message_changes(session: Session, seqs: list[int]) -> tuple[dict[int, str], set[int]]:
    """Return the newest wording of edited messages, and the seqs of withdrawn ones."""
    edits: dict[int, str] = {}
    withdrawn: set[int] = set()
    if seqs:
        # A change comes after the message that it changes.
        for change in session.events.filter(type__in=CHANGE_TYPES).after(min(seqs)):
            seq = change.payload["seq"]
            if change.type == EventType.USER_MESSAGE_EDITED:
                edits[seq] = change.payload["text"]
            else:
                withdrawn.add(seq)
    return edits, withdrawn


def _runs(session: Session, from_people: Sequence[SessionEvent]) -> list[Run]:
    """Return the runs that took these messages, and those that wait or run now."""
    taken = {event.processed_run_id for event in from_people if event.processed_run_id}
    waiting = Q(status__in=[Run.Status.QUEUED, Run.Status.RUNNING])
    return (
        list(Run.objects.filter(Q(pk__in=taken) | waiting, session=session)) if from_people else []
    )


def _receipt(event: SessionEvent, runs: Sequence[Run], withdrawn: bool) -> Receipt:
    """Return the receipt of a message. It is queued as long as a run holds it."""
    if withdrawn:
        return Receipt(state="withdrawn", run_id=None)
    if event.processed_at:
        run = next((run for run in runs if run.pk == event.processed_run_id), None)
        return Receipt(state=_taken_state(event, run), run_id=event.processed_run_id)
    for run in runs:
        if event.seq in run.message_seqs:
            return Receipt(state="queued", run_id=run.pk)
    # No run will read it: its run was cancelled, or it waited in the session that was forked.
    return Receipt(state="withdrawn", run_id=None)


def _taken_state(event: SessionEvent, run: Run | None) -> ReceiptState:
    if run and run.status in {Run.Status.FAILED, Run.Status.DEAD}:
        return "failed"
    if run and run.started_at and event.created_at > run.started_at:
        return "steered"
    if run and len(run.message_seqs) > 1 and run.message_seqs[0] != event.seq:
        return "merged"
    return "answered"
