"""The conversation of a session: who said what, in its newest wording, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.db.models import Q

from sessions_app.models import Run, Session, SessionEvent

E = SessionEvent.Type
SPOKEN = [E.USER_MESSAGE, E.AGENT_MESSAGE]
CHANGES = [E.USER_MESSAGE_EDITED, E.USER_MESSAGE_WITHDRAWN]

ReceiptState: TypeAlias = Literal["queued", "merged", "steered", "answered", "withdrawn"]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What became of a person's message, and in which run."""

    state: ReceiptState
    run_id: UUID | None


@dataclass(frozen=True, kw_only=True)
class Said:
    """One message. An agent's has no receipt, a person's no model and no usage."""

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


def read_history(session: Session, *, after: int = 0, limit: int) -> list[Said]:
    """The first messages after this seq, in order."""
    spoken = session.events.filter(type__in=SPOKEN).after(after)
    return _said(session, list(spoken[:limit]))


def newest_history(session: Session, *, limit: int) -> list[Said]:
    """The last messages, in order."""
    spoken = session.events.filter(type__in=SPOKEN).order_by("-seq")
    return _said(session, list(spoken[:limit])[::-1])


def told_among(session: Session, events: Sequence[SessionEvent]) -> list[Said]:
    """These messages as they are meant now, without those that no agent has read."""
    unread = ("queued", "withdrawn")
    said = _said(session, events)
    return [one for one in said if one.receipt is None or one.receipt.state not in unread]


def _said(session: Session, events: Sequence[SessionEvent]) -> list[Said]:
    """Three queries, however many messages there are."""
    asked = [event for event in events if event.type == E.USER_MESSAGE]
    edits, withdrawn = _changes(session, [event.seq for event in asked])
    runs = _runs(session, asked)
    return [
        _message(
            event,
            edits.get(event.seq),
            _receipt(event, runs, event.seq in withdrawn) if event.type == E.USER_MESSAGE else None,
        )
        for event in events
    ]


def _message(event: SessionEvent, edit: str | None, receipt: Receipt | None) -> Said:
    payload = event.payload
    return Said(
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


def _changes(session: Session, seqs: list[int]) -> tuple[dict[int, str], set[int]]:
    """The newest wording of each edited message, and those that were taken back."""
    edits: dict[int, str] = {}
    withdrawn: set[int] = set()
    if seqs:
        # A change is written after what it changes.
        for change in session.events.filter(type__in=CHANGES).after(min(seqs)):
            seq = change.payload["seq"]
            if change.type == E.USER_MESSAGE_EDITED:
                edits[seq] = change.payload["text"]
            else:
                withdrawn.add(seq)
    return edits, withdrawn


def _runs(session: Session, asked: Sequence[SessionEvent]) -> list[Run]:
    """The runs that took these messages, and those that wait or run now."""
    taken = {event.processed_run_id for event in asked if event.processed_run_id}
    waiting = Q(status__in=[Run.Status.QUEUED, Run.Status.RUNNING])
    return list(Run.objects.filter(Q(pk__in=taken) | waiting, session=session)) if asked else []


def _receipt(event: SessionEvent, runs: Sequence[Run], withdrawn: bool) -> Receipt:
    """Read from rows alone: a message is queued as long as some run holds it."""
    if withdrawn:
        return Receipt(state="withdrawn", run_id=None)
    if event.processed_at:
        run = next((run for run in runs if run.pk == event.processed_run_id), None)
        return Receipt(state=_taken(event, run), run_id=event.processed_run_id)
    for run in runs:
        if event.seq in run.message_seqs:
            return Receipt(state="queued", run_id=run.pk)
    # Nothing will read it: its run was cancelled, or it waited in the session this one was forked from.
    return Receipt(state="withdrawn", run_id=None)


def _taken(event: SessionEvent, run: Run | None) -> ReceiptState:
    if run and run.started_at and event.created_at > run.started_at:
        return "steered"
    if run and len(run.message_seqs) > 1 and run.message_seqs[0] != event.seq:
        return "merged"
    return "answered"
