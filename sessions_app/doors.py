"""The one way into a session: every `user.*` event from REST, sockets, pages and commands."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
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
from sessions_app.statements import hold_lane
from tenants.access import Principal, authorise
from tenants.spending import check_purses

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
    if session.about_id and verb == "run":
        # What is said here changes an agent.
        authorise(principal, "build")
    return session


def client_key(principal: Principal, word: object) -> str | None:
    """What a client calls something that it sends: bounded, apart from what others send, and the
    same at every door, so that what was lost on one way may be repeated on another."""
    if word is None or word == "":
        return None
    sender = principal.key or principal.user
    return f"client:{sha256(f'{sender and sender.pk}:{word}'.encode()).hexdigest()[:48]}"


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
    dedupe_key = _bound(dedupe_key, type, parsed)
    if not isinstance(parsed, UserMessage):
        return _admit_once(session, parsed, principal, dedupe_key)
    author_id, key_id = principal.user_id, principal.key_id
    _check_money(session, author_id, key_id)
    event = NewEvent(
        type=E.USER_MESSAGE,
        payload=parsed.model_dump(mode="json"),
        dedupe_key=dedupe_key,
        key_id=key_id,
    )
    return _send(session, event, author_id, on_busy, priority)


@transaction.atomic
def send_waiting(principal: Principal, session_id: UUID, run_id: UUID, on_busy: str) -> Admitted:
    """Take a message out of the queue and send it in another manner, both or neither."""
    session = find_session(principal, session_id, "run")
    waiting = queue.remove_run(session, run_id, principal.user_id)
    return accept_event(
        principal, session.pk, type=E.USER_MESSAGE, payload=waiting, on_busy=on_busy
    )


def _bound(key: str | None, type: str, said: Payload) -> str | None:
    """The key for this very thing: another one under the same key must not be lost."""
    if key is None:
        return None
    words = f"{key}:{type}:{said.model_dump_json()}"
    return f"{key.partition(':')[0]}:{sha256(words.encode()).hexdigest()[:48]}"


def _check_money(session: Session, author_id: UUID | None, key_id: UUID | None) -> None:
    """Nothing is begun on an empty purse. What a purse can still pay is asked before each call."""
    owners = (session.agent_id, session.pk, session.parent_id, author_id, key_id)
    check_purses(session.workspace_id, [owner for owner in owners if owner])


@transaction.atomic
def _admit_once(
    session: Session, parsed: Payload, principal: Principal, dedupe_key: str | None
) -> Admitted:
    """What is no message. The same request sent again is told of the first, and does nothing."""
    if first := _first(session, dedupe_key):
        return Admitted(seq=first.seq, event_id=first.pk, run_id=None)
    return _at(session, *_admit(session, parsed, principal, dedupe_key))


def _admit(
    session: Session, parsed: Payload, principal: Principal, key: str | None
) -> tuple[int, UUID | None]:
    author_id = principal.user_id
    match parsed:
        case Interrupt(note=note, run_id=only):
            stopped = lanes.stop(
                session.pk, note=note, only=only, author_id=author_id, dedupe_key=key
            )
            return stopped.seq, stopped.run_id
        case ToolConfirmation():
            return confirmations.confirm(session, parsed, principal, key)
        case MessageEdited(seq=seq, text=text):
            return queue.edit_message(session, seq, text, author_id, key)
        case MessageWithdrawn(seq=seq):
            return queue.withdraw_message(session, seq, author_id, key)
        case CustomToolResult():
            return confirmations.answer_custom(session, parsed, author_id, key)
        case UserMessage():
            raise AssertionError("a message is sent, not admitted")
        case _:
            assert_never(parsed)  # type: ignore[arg-type]


def _at(session: Session, seq: int, run_id: UUID | None) -> Admitted:
    event_id = session.events.values_list("pk", flat=True).get(seq=seq)
    return Admitted(seq=seq, event_id=event_id, run_id=run_id)


def _send(
    session: Session, event: NewEvent, author_id: UUID | None, on_busy: str, priority: int
) -> Admitted:
    """A message. To interrupt is to stop and to send, in one commit."""
    interrupts = on_busy == Run.OnBusy.INTERRUPT
    # Otherwise one statement is its own commit; a transaction would only cost round trips.
    with transaction.atomic() if interrupts else nullcontext():
        if interrupts and not _first(session, event.dedupe_key):
            lanes.stop(session.pk, author_id=author_id)
        accepted = lanes.accept(
            session.pk, event, author_id=author_id, on_busy=on_busy, priority=priority
        )
    if not session.title:
        Session.objects.filter(pk=session.pk, title="").update(
            title=title_of(str(event.payload["text"]))
        )
    return Admitted(seq=accepted.seq, event_id=accepted.event_id, run_id=accepted.run_id)


def _first(session: Session, dedupe_key: str | None) -> SessionEvent | None:
    """What was written when this was sent before: a repetition must not do anything again.

    Under the lane's lock: of two that come at once, the second sees the first.
    """
    if not dedupe_key:
        return None
    hold_lane(session.pk)
    return session.events.filter(dedupe_key=dedupe_key).first()


def title_of(text: str) -> str:
    """The first line of the first message, cut at a word."""
    line = " ".join(text.split("\n", 1)[0].split())
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + "…"
