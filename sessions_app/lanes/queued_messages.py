"""The messages that wait in a session's lane: list, edit, move and withdraw them.

The log is not changed: an edit or a withdrawal is an event, which every view applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from core.exceptions import Conflict, NotFound
from sessions_app.live.publisher import notify_queue_moved
from sessions_app.log.sql import lock_lane
from sessions_app.log.transcript import message_changes
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Run, Session, SessionEvent

EventType = SessionEvent.Type


@dataclass(frozen=True, kw_only=True)
class QueuedRun:
    """One waiting run with its messages."""

    run_id: UUID
    position: int
    text: str
    on_busy: str
    priority: int
    message_seqs: list[int]
    created_at: datetime


def list_queue(session: Session) -> list[QueuedRun]:
    """Return the waiting runs in the order in which they will run."""
    runs = list(_waiting_runs(session))
    texts = _texts(session, [seq for run in runs for seq in run.message_seqs])
    return [
        QueuedRun(
            run_id=run.pk,
            position=nth,
            text=_join(texts, run.message_seqs),
            on_busy=run.on_busy,
            priority=run.priority,
            message_seqs=run.message_seqs,
            created_at=run.created_at,
        )
        for nth, run in enumerate(runs)
    ]


def _waiting_runs(session: Session) -> list[Run]:
    runs = Run.objects.filter(
        session=session, status=Run.Status.QUEUED, resumes=False, purpose=Run.Purpose.TURN
    )
    return list(runs.order_by("-priority", "rank", "id"))


def _texts(session: Session, seqs: list[int]) -> dict[int, str]:
    """Return the newest wording of these messages, without withdrawn ones."""
    edits, withdrawn = message_changes(session, seqs)
    messages = session.events.filter(seq__in=seqs, type=EventType.USER_MESSAGE)
    return {m.seq: edits.get(m.seq, m.payload["text"]) for m in messages if m.seq not in withdrawn}


def _join(texts: dict[int, str], seqs: list[int]) -> str:
    return "\n\n".join(texts[seq] for seq in seqs if seq in texts)


@transaction.atomic
def edit_message(
    session: Session, seq: int, text: str, author_id: UUID | None, dedupe_key: str | None = None
) -> tuple[int, UUID | None]:
    """Reword a message that no run has taken yet."""
    run = _lock_run_of(session, seq)
    change = {"seq": seq, "text": text}
    event = NewEvent(type=EventType.USER_MESSAGE_EDITED, payload=change, dedupe_key=dedupe_key)
    return append_events(session.pk, [event], author_id=author_id), run.pk


@transaction.atomic
def withdraw_message(
    session: Session, seq: int, author_id: UUID | None, dedupe_key: str | None = None
) -> tuple[int, UUID | None]:
    """Withdraw a message that no run has taken yet. A run without messages is cancelled."""
    run = _lock_run_of(session, seq)
    event = NewEvent(
        type=EventType.USER_MESSAGE_WITHDRAWN, payload={"seq": seq}, dedupe_key=dedupe_key
    )
    written = append_events(session.pk, [event], author_id=author_id)
    run.message_seqs = [other for other in run.message_seqs if other != seq]
    if not run.message_seqs and run.status == Run.Status.QUEUED:
        run.status, run.stop_reason = Run.Status.CANCELLED, "withdrawn"
        run.finished_at = timezone.now()
    run.save(update_fields=["message_seqs", "status", "stop_reason", "finished_at"])
    return written, run.pk


def edit_run(session: Session, run_id: UUID, text: str, author_id: UUID | None) -> None:
    """Reword a waiting run. Several collected messages become one."""
    first, *others = _get_queued(session, run_id).message_seqs
    with transaction.atomic():
        for seq in others:
            withdraw_message(session, seq, author_id)
        edit_message(session, first, text, author_id)


@transaction.atomic
def remove_run(session: Session, run_id: UUID, author_id: UUID | None) -> dict[str, Any]:
    """Withdraw all messages of a waiting run, and return them as one."""
    lock_lane(session.pk)
    run = _get_queued(session, run_id)
    seqs = list(run.message_seqs)
    texts = _texts(session, seqs)
    for seq in seqs:
        withdraw_message(session, seq, author_id)
    messages = session.events.filter(seq__in=seqs).order_by("seq")
    files = [file for message in messages for file in message.payload.get("attachments", [])]
    return {"text": _join(texts, seqs), "attachments": files, "overrides": run.wishes or None}


@transaction.atomic
def move_run(session: Session, run_id: UUID, position: int) -> None:
    """Move a waiting run to this position."""
    lock_lane(session.pk)
    run = _get_queued(session, run_id)
    others = [other for other in _waiting_runs(session) if other.pk != run.pk]
    position = max(0, min(position, len(others)))
    before = others[position - 1] if position else None
    after = others[position] if position < len(others) else None
    if before:
        # It takes the priority of its neighbour, or the order would not hold.
        between = after is not None and after.priority == before.priority
        run.priority = before.priority
        run.rank = (before.rank + after.rank) / 2 if after and between else before.rank + 1
    elif after:
        run.priority, run.rank = after.priority, after.rank - 1
    run.save(update_fields=["rank", "priority"])
    notify_queue_moved(session.pk)


def _get_queued(session: Session, run_id: UUID) -> Run:
    run = Run.objects.filter(session=session, pk=run_id).first()
    if run is None:
        raise NotFound
    if run.status != Run.Status.QUEUED or not run.message_seqs:
        raise Conflict(f"This run is {run.status}; only a waiting message can be changed.")
    return run


def _lock_run_of(session: Session, seq: int) -> Run:
    """Return the waiting run that holds a message, under the lock of the lane."""
    lock_lane(session.pk)
    message = session.events.filter(seq=seq, type=EventType.USER_MESSAGE).first()
    if message is None:
        raise NotFound(f"This session has no message with seq {seq}.")
    run = Run.objects.filter(
        session=session,
        message_seqs__contains=[seq],
        status__in=[Run.Status.QUEUED, Run.Status.RUNNING],
    ).first()
    if message.processed_at or run is None:
        raise Conflict("An agent has read this message already, so it cannot be changed.")
    return run
