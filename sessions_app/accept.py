"""The one way into a session: accepts every `user.*` event from REST, sockets, pages and commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from hashlib import sha256
from typing import Any, assert_never
from uuid import UUID

from django.conf import settings
from django.db import transaction

from core.exceptions import Invalid
from core.ids import uuid7
from core.validation import is_storable
from sessions_app.approvals import tool_calls
from sessions_app.lanes import queued_messages, run_queue
from sessions_app.lanes.run_queue import Accepted
from sessions_app.live.publisher import notify_log_grew
from sessions_app.log import payloads
from sessions_app.log.payloads import Payload, UserMessage, parse
from sessions_app.log.sql import lock_lane, row
from sessions_app.log.writer import NewEvent, encode
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.resources.parts import take_attachment, take_output
from sessions_app.sessions import authorise_session, find_session
from tenants.access import Principal, authorise
from tenants.billing.spending import check_purses
from tools_app.storage import check_disks

EventType = SessionEvent.Type
TITLE_LENGTH = 60
MODES = frozenset(Run.OnBusy.values)
SEND = (
    "SELECT sid, seq, run, event_id, replayed FROM session_send("
    "%s, %s, %s, %s, %s::jsonb, %s, %s, %s::smallint, %s, %s, %s, %s)"
)


def client_dedupe_key(principal: Principal, key: object) -> str | None:
    """Return the deduplication key for what a client sends under its own key.

    It is bounded, separate from other senders, and the same at every door, so that a request lost
    at one door can be repeated at another.
    """
    if key is None or key == "":
        return None
    sender = principal.key or principal.user
    return f"client:{sha256(f'{sender and sender.pk}:{key}'.encode()).hexdigest()[:48]}"


def accept_event(
    principal: Principal,
    session: Session | UUID,
    *,
    type: str,
    payload: object,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    dedupe_key: str | None = None,
    priority: int = 0,
) -> Accepted:
    """Check the sender and the payload, append the event, and start what it starts.

    A caller that has found the session already passes it, which saves a query.
    """
    if isinstance(session, UUID):
        session = find_session(principal, session, "run")
    else:
        authorise_session(principal, session, "run")
    _check_options(on_busy, priority)
    parsed = parse(type, payload)
    dedupe_key = _bind_key(dedupe_key, type, parsed)
    if not isinstance(parsed, UserMessage):
        return _accept_once(session, parsed, principal, dedupe_key)
    _check_overrides(principal, parsed)
    check_disks()
    _check_credit(session, principal.user_id, principal.key_id)
    attachments = [take_attachment(session, one) for one in parsed.attachments]
    event = _message_event(principal, parsed, dedupe_key, attachments)
    return _send(session, event, principal.user_id, on_busy, priority)


def send_by_key(
    principal: Principal,
    agent: UUID | str,
    session_key: str,
    text: str,
    *,
    overrides: dict[str, Any] | None = None,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    dedupe_key: str | None = None,
    priority: int = 0,
) -> tuple[UUID, Accepted] | None:
    """Accept a message for the session of an agent and a key in one statement, and return both.

    Return None when that is not possible: when the session does not exist yet, but also when there
    is no such agent or no credit. The separate steps then create the session or raise the error.
    """
    workspace_id = authorise(principal, "run")
    _check_options(on_busy, priority)
    if on_busy == Run.OnBusy.INTERRUPT or not is_storable(str(agent)):
        return None
    check_disks()
    parsed = parse(EventType.USER_MESSAGE, {"text": text, "overrides": overrides})
    _check_overrides(principal, parsed)
    key = _bind_key(dedupe_key, EventType.USER_MESSAGE, parsed)
    event = encode([_message_event(principal, parsed, key)])[1:-1]
    agent_id, name = _id_or_name(agent)
    where = [workspace_id, agent_id, name, session_key]
    options = [principal.user_id, on_busy, priority, uuid7(), *queue_limits()]
    session_id, seq, run, event_id, replayed = row(
        SEND, [*where, event, *options, title_from_message(text)]
    )
    if session_id is None:
        return None
    if not replayed:
        notify_log_grew(session_id)
    return session_id, Accepted(seq=seq, event_id=event_id, run_id=run)


def queue_limits() -> tuple[int, int]:
    """Return how many messages of people and programs may wait in a session and in a workspace."""
    return settings.QUEUE_PER_SESSION, settings.QUEUE_PER_WORKSPACE


def _id_or_name(agent: UUID | str) -> tuple[UUID | None, str | None]:
    try:
        return UUID(str(agent)), None
    except ValueError:
        return None, str(agent)


def _check_options(on_busy: str, priority: int) -> None:
    if on_busy not in MODES:
        raise Invalid(f"on_busy must be one of {', '.join(Run.OnBusy.values)}.")
    if not -100 <= priority <= 100:
        raise Invalid("priority must be a number from -100 to 100.")


def _check_overrides(principal: Principal, message: Payload) -> None:
    """Raise Forbidden if the sender replaces instructions without the right to build."""
    overrides = message.overrides if isinstance(message, UserMessage) else None
    if overrides and overrides.system_prompt_mode == "replace":
        authorise(principal, "build")


def _message_event(
    principal: Principal,
    message: Payload,
    dedupe_key: str | None,
    attachments: Sequence[dict[str, Any]] = (),
) -> NewEvent:
    payload = message.model_dump(mode="json", exclude_none=True, exclude={"attachments"})
    return NewEvent(
        type=EventType.USER_MESSAGE,
        payload={**payload, "attachments": [*attachments]},
        dedupe_key=dedupe_key,
        key_id=principal.key_id,
    )


@transaction.atomic
def resend_queued(principal: Principal, session_id: UUID, run_id: UUID, on_busy: str) -> Accepted:
    """Take a message out of the queue and send it in another mode, in one commit."""
    session = find_session(principal, session_id, "run")
    waiting = queued_messages.remove_run(session, run_id, principal.user_id)
    return accept_event(
        principal, session, type=EventType.USER_MESSAGE, payload=waiting, on_busy=on_busy
    )


def _bind_key(key: str | None, type: str, payload: Payload) -> str | None:
    """Bind a key to this very payload, so that another payload under the same key is not lost."""
    if key is None:
        return None
    bound = f"{key}:{type}:{payload.model_dump_json(exclude_none=True)}"
    return f"{key.partition(':')[0]}:{sha256(bound.encode()).hexdigest()[:48]}"


def _check_credit(session: Session, author_id: UUID | None, key_id: UUID | None) -> None:
    """Raise if a purse is empty. Each model call checks what a purse can still pay."""
    owners = (session.agent_id, session.pk, session.parent_id, author_id, key_id)
    check_purses(session.workspace_id, [owner for owner in owners if owner])


@transaction.atomic
def _accept_once(
    session: Session, parsed: Payload, principal: Principal, dedupe_key: str | None
) -> Accepted:
    """Accept an event other than a message. A repeated request returns the first and does nothing."""
    if first := _find_repeated(session, dedupe_key):
        return Accepted(seq=first.seq, event_id=first.pk, run_id=None)
    return _accepted(session, *_accept(session, parsed, principal, dedupe_key))


def _accept(
    session: Session, parsed: Payload, principal: Principal, key: str | None
) -> tuple[int, UUID | None]:
    author_id = principal.user_id
    match parsed:
        case payloads.Interrupt(note=note, run_id=only):
            stopped = run_queue.stop(
                session.pk, note=note, only=only, author_id=author_id, dedupe_key=key
            )
            return stopped.seq, stopped.run_id
        case payloads.ToolConfirmation():
            return tool_calls.confirm_call(session, parsed, principal, key)
        case payloads.MessageEdited(seq=seq, text=text):
            return queued_messages.edit_message(session, seq, text, author_id, key)
        case payloads.MessageWithdrawn(seq=seq):
            return queued_messages.withdraw_message(session, seq, author_id, key)
        case payloads.CustomToolResult():
            parsed.output = take_output(session, parsed.output)
            return tool_calls.accept_custom_result(session, parsed, author_id, key)
        case UserMessage():
            raise AssertionError("messages are sent by _send")
        case _:
            assert_never(parsed)  # type: ignore[arg-type]


def _accepted(session: Session, seq: int, run_id: UUID | None) -> Accepted:
    event_id = session.events.values_list("pk", flat=True).get(seq=seq)
    return Accepted(seq=seq, event_id=event_id, run_id=run_id)


def _send(
    session: Session, event: NewEvent, author_id: UUID | None, on_busy: str, priority: int
) -> Accepted:
    """Send a message. The mode `interrupt` stops and sends in one commit."""
    interrupts = on_busy == Run.OnBusy.INTERRUPT
    # Otherwise one statement is one commit, and a transaction would only cost round trips.
    with transaction.atomic() if interrupts else nullcontext():
        if interrupts and not _find_repeated(session, event.dedupe_key):
            run_queue.stop(session.pk, author_id=author_id)
        accepted = run_queue.accept(
            session.pk,
            event,
            author_id=author_id,
            on_busy=on_busy,
            priority=priority,
            limits=queue_limits(),
        )
    if not session.title and (title := title_from_message(str(event.payload["text"]))):
        Session.objects.filter(pk=session.pk, title="").update(title=title)
    return accepted


def _find_repeated(session: Session, dedupe_key: str | None) -> SessionEvent | None:
    """Return the event that this request wrote when it was sent before.

    It takes the lock of the lane, so that the second of two simultaneous requests sees the first.
    """
    if not dedupe_key:
        return None
    lock_lane(session.pk)
    return session.events.filter(dedupe_key=dedupe_key).first()


_OPENINGS = re.compile(
    r"(?:(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: \w{1,30})?[,.!]\s*"
    r"|please,?\s|(?:can|could|would|will) you (?:please )?(?:help me (?:to )?)?"
    r"|i(?:'d| would) like you to |i (?:want|need) you to |help me (?:to )?)",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"(?:hi|hello|hey|yo|good (?:morning|afternoon|evening)|thanks|thank you|test|ping)"
    r"(?: (?:there|all|everyone))?[\s.!?]*",
    re.IGNORECASE,
)


def title_from_message(text: str) -> str:
    """Return a title: the first line of a message, without its courtesies, cut at a word.

    A mere greeting gives no title, so that the next message names the chat.
    """
    lines = (" ".join(line.split()).lstrip("#>*-` ") for line in text[:2_000].splitlines())
    line = next(filter(None, lines), "")
    if _GREETING.fullmatch(line):
        return ""
    while (opening := _OPENINGS.match(line)) and line[opening.end() :].strip():
        line = line[opening.end() :].strip()
    line = (line[:1].upper() + line[1:]).rstrip(".:;, ")
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + "…"
