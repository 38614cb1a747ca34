"""Exports and imports sessions as one event per line.

Every imported line must be an event that each view of the log can show.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError, field_validator

from agents.models import Agent
from core.db import release_connection
from core.exceptions import Invalid
from sessions_app.context.taint import events_are_tainted, mark_tainted
from sessions_app.live.frames import event_body
from sessions_app.log.payloads import check_attached_path
from sessions_app.log.transcript import TranscriptMessage, read_history
from sessions_app.log.writer import import_events
from sessions_app.models import Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tenants.quotas import check_database_room
from tools_app.storage import check_disks

EventType = SessionEvent.Type
MAX_EVENTS = 100_000
#: Events, and messages, that one query of an export reads.
PAGE_ROWS, PER_QUERY = 500, 200
#: What a request imports or exports at once. More becomes a workflow; see `orchestrator/transfers.py`.
SMALL_BYTES, SMALL_EVENTS = 2_000_000, 2_000


class PayloadShape(BaseModel):
    """The fields that views rely on. Others are allowed and kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class Text(PayloadShape):
    text: str
    provider_state: str | None = None


class Attached(PayloadShape):
    name: str
    path: str

    @field_validator("path")
    @classmethod
    def within_the_files(cls, path: str) -> str:
        return check_attached_path(path)


class Message(Text):
    attachments: list[Attached] = []


class Edit(PayloadShape):
    seq: int
    text: str


class Withdrawal(PayloadShape):
    seq: int


class Call(PayloadShape):
    tool_use_id: str
    name: str
    input: dict[str, Any]
    provider_state: str | None = None


class Result(PayloadShape):
    tool_use_id: str
    name: str
    state: str


class Criterion(PayloadShape):
    name: str
    met: bool
    why: str


class Judged(PayloadShape):
    status: str
    criteria: list[Criterion] = []


class ChildIdle(PayloadShape):
    child_session_id: str
    status: str
    result: str
    title: str = ""
    tool_use_id: str = ""
    shown: bool = False


class Noted(PayloadShape):
    text: str
    documents: list[str] = []


SHAPES: dict[str, type[PayloadShape]] = {
    EventType.USER_MESSAGE: Message,
    EventType.AGENT_MESSAGE: Text,
    EventType.AGENT_THINKING: Text,
    EventType.USER_MESSAGE_EDITED: Edit,
    EventType.USER_MESSAGE_WITHDRAWN: Withdrawal,
    EventType.AGENT_TOOL_USE: Call,
    EventType.AGENT_CUSTOM_TOOL_USE: Call,
    EventType.AGENT_TOOL_RESULT: Result,
    EventType.OUTCOME_JUDGED: Judged,
    EventType.CHILD_IDLE: ChildIdle,
    EventType.CONTEXT_NOTED: Noted,
}


class ImportedEvent(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: EventType
    payload: dict[str, Any]
    created_at: AwareDatetime | None = None
    processed_at: AwareDatetime | None = None


def _parse_line(number: int, line: bytes) -> dict[str, Any]:
    """Return the event of one line, or raise an error that names the line."""
    try:
        event = ImportedEvent.model_validate_json(line)
        SHAPES.get(event.type, PayloadShape).model_validate(event.payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise Invalid(f"Line {number} is not an event: {problem}.") from None
    try:
        orjson.dumps(event.payload)
    except TypeError as error:
        raise Invalid(f"Line {number} cannot be stored: {error}.") from None
    return event.model_dump(mode="json")


def export(session: Session, *, thinking: bool = False) -> Iterator[bytes]:
    """Yield every event as a line of JSON, without loading them all or keeping a connection.

    Thinking is only exported if it is asked for.
    """
    after = 0
    while page := list(session.events.filter(seq__gt=after).order_by("seq")[:PAGE_ROWS]):
        release_connection()
        shown = (event for event in page if thinking or event.type != EventType.AGENT_THINKING)
        yield from (orjson.dumps(event_body(event)) + b"\n" for event in shown)
        after = page[-1].seq


def export_markdown(session: Session) -> Iterator[str]:
    """Yield a chat as Markdown: who wrote each message, and when."""
    agent = session.agent_version.name
    yield f"# {session.title or 'New chat'}\n"
    for message in messages_until(session, session.last_seq):
        writer = agent if message.role == "assistant" else "You"
        at = f"{message.created_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        yield f"\n## {writer} · {at}\n\n{message.text}\n"
        yield from (f"\nAttached: {one.get('name', 'a file')}\n" for one in message.attachments)


def messages_until(session: Session, until: int) -> Iterator[TranscriptMessage]:
    """Yield the messages up to a seq, without those that were withdrawn."""
    after = 0
    while page := read_history(session, after=after, limit=PER_QUERY):
        release_connection()
        for message in page:
            if message.seq > until:
                return
            if message.text and not (message.receipt and message.receipt.state == "withdrawn"):
                yield message
        after = page[-1].seq


def import_session(
    agent: Agent,
    lines: Iterator[bytes],
    *,
    title: str = "",
    created_by_id: UUID | None = None,
    session_key: str | None = None,
) -> Session:
    """Create a session with the events of an export.

    With a key, a session of this key that has its events already is returned as it is.
    """
    check_disks()
    check_database_room(agent.workspace_id)
    release_connection()  # Parsing takes a while.
    events = list(_parse(lines))
    return create_from_events(
        agent,
        events,
        title=title or "Imported session",
        created_by_id=created_by_id,
        session_key=session_key,
    )


def _parse(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(filter(None, (raw.strip() for raw in lines)), start=1):
        if number > MAX_EVENTS:
            raise Invalid(f"An import has at most {MAX_EVENTS:,} events.")
        yield _parse_line(number, line)


@transaction.atomic
def create_from_events(
    agent: Agent,
    events: list[dict[str, Any]],
    *,
    title: str,
    created_by_id: UUID | None,
    session_key: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Session:
    """Create a session with these events, all of which count as processed."""
    session, _ = get_or_create_session(
        agent=agent,
        title=title,
        metadata=metadata,
        created_by_id=created_by_id,
        session_key=session_key,
    )
    if session.last_seq:
        return session
    import_events(session.pk, events, created_by_id)
    if events_are_tainted(events):
        mark_tainted(session.pk)
    session.refresh_from_db()
    return session
