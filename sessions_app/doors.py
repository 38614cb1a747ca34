"""The one way into a session: every `user.*` event from REST, sockets, pages and commands."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from django.db import transaction

from config.faults import Invalid, NotFound
from sessions_app import confirmations, lanes, queue
from sessions_app.log import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.payloads import (
    CustomToolResult,
    Interrupt,
    MessageEdited,
    MessageWithdrawn,
    Payload,
    ToolConfirmation,
    UserMessage,
    parse,
)
from tenants.access import Principal, authorise

E = SessionEvent.Type
TITLE_LENGTH = 80


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """An event that is in the log now, and the run that it belongs to."""

    seq: int
    event_id: UUID
    run_id: UUID | None


def find_session(principal: Principal, session_id: UUID, verb: str = "read") -> Session:
    """The session, if this identity may do that with it."""
    workspace_id = authorise(principal, verb)  # type: ignore[arg-type]
    session = Session.objects.for_workspace(workspace_id).filter(pk=session_id).first()
    if session is None:
        raise NotFound
    return session


def accept_event(
    principal: Principal,
    session_id: UUID,
    *,
    type: str,
    payload: object,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    dedupe_key: str | None = None,
    priority: int = 0,
) -> Admitted:
    """Check who sends what to where, write it, and start what it starts."""
    session = find_session(principal, session_id, "run")
    if on_busy not in Run.OnBusy.values:
        raise Invalid(f"on_busy is one of {', '.join(Run.OnBusy.values)}.")
    if not -100 <= priority <= 100:
        raise Invalid("priority is a number from -100 to 100.")
    parsed = parse(type, payload)
    author_id = principal.user.pk if principal.user else None
    return _admit(session, parsed, author_id, on_busy, dedupe_key, priority)


def _admit(
    session: Session,
    parsed: Payload,
    author_id: UUID | None,
    on_busy: str,
    dedupe_key: str | None,
    priority: int,
) -> Admitted:
    match parsed:
        case UserMessage():
            return _send(session, parsed, author_id, on_busy, dedupe_key, priority)
        case Interrupt(note=note):
            return _interrupt(session, note, author_id, dedupe_key)
        case MessageEdited(seq=seq, text=text):
            return _at(session, *queue.edit_message(session, seq, text, author_id))
        case MessageWithdrawn(seq=seq):
            return _at(session, *queue.withdraw_message(session, seq, author_id))
        case ToolConfirmation():
            return _at(session, *confirmations.confirm(session, parsed, author_id))
        case CustomToolResult():
            return _at(session, *confirmations.answer_custom(session, parsed, author_id))
        case _:
            assert_never(parsed)  # type: ignore[arg-type]


def _interrupt(
    session: Session, note: str, author_id: UUID | None, dedupe_key: str | None
) -> Admitted:
    """Stop what runs. The same request sent again must not stop what runs by then."""
    if dedupe_key and (first := session.events.filter(dedupe_key=dedupe_key).first()):
        return Admitted(seq=first.seq, event_id=first.pk, run_id=None)
    stopped = lanes.stop(session.pk, note=note, author_id=author_id, dedupe_key=dedupe_key)
    return _at(session, stopped.seq, stopped.run_id)


def _at(session: Session, seq: int, run_id: UUID | None) -> Admitted:
    event_id = session.events.values_list("pk", flat=True).get(seq=seq)
    return Admitted(seq=seq, event_id=event_id, run_id=run_id)


def _send(
    session: Session,
    message: UserMessage,
    author_id: UUID | None,
    on_busy: str,
    dedupe_key: str | None,
    priority: int,
) -> Admitted:
    """A message. To interrupt is to stop and to send, in one commit."""
    event = NewEvent(
        type=E.USER_MESSAGE, payload=message.model_dump(mode="json"), dedupe_key=dedupe_key
    )
    interrupts = on_busy == Run.OnBusy.INTERRUPT
    # Otherwise one statement is its own commit; a transaction would only cost round trips.
    with transaction.atomic() if interrupts else nullcontext():
        if interrupts and not _known(session, dedupe_key):
            lanes.stop(session.pk, author_id=author_id)
        accepted = lanes.accept(
            session.pk, event, author_id=author_id, on_busy=on_busy, priority=priority
        )
    if not session.title:
        Session.objects.filter(pk=session.pk, title="").update(title=title_of(message.text))
    return Admitted(seq=accepted.seq, event_id=accepted.event_id, run_id=accepted.run_id)


def _known(session: Session, dedupe_key: str | None) -> bool:
    """Whether this message was sent before: a repetition must not stop anything."""
    return bool(dedupe_key) and session.events.filter(dedupe_key=dedupe_key).exists()


def title_of(text: str) -> str:
    """The first line of the first message, cut at a word."""
    line = " ".join(text.split("\n", 1)[0].split())
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + "…"
