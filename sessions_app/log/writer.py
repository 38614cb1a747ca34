"""The only module that writes to the session log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models.functions import Now

from core.ids import uuid7
from core.validation import storable_json
from sessions_app.live.publisher import notify_log_grew
from sessions_app.log.sql import commit_once, row
from sessions_app.models import SessionEvent

APPEND = "SELECT log_append(%s, %s, %s, %s, %s::jsonb)"
EventType = SessionEvent.Type
#: Events that take effect in the commit that writes them, without a run.
PROCESSED_AT_ONCE = frozenset(
    {
        EventType.USER_TOOL_CONFIRMATION,
        EventType.USER_CUSTOM_TOOL_RESULT,
        EventType.USER_MESSAGE_EDITED,
        EventType.USER_MESSAGE_WITHDRAWN,
    }
)


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """An event that is about to be written."""

    type: SessionEvent.Type
    payload: dict[str, Any]
    id: UUID = field(default_factory=uuid7)
    dedupe_key: str | None = None
    #: The key that a message was sent with. Its run keeps it.
    key_id: UUID | None = None


def encode(events: Sequence[NewEvent]) -> str:
    """Return events in the form that the SQL functions take, without characters PostgreSQL cannot
    store.
    """
    packed = [
        {
            "id": e.id,
            "type": e.type,
            "payload": storable_json(e.payload),
            "dedupe_key": e.dedupe_key,
            "key_id": e.key_id,
        }
        for e in events
    ]
    return orjson.dumps(packed, default=str).decode()


def append_events(
    session_id: UUID,
    events: Sequence[NewEvent],
    *,
    epoch: int | None = None,
    run_id: UUID | None = None,
    author_id: UUID | None = None,
) -> int:
    """Append events in order, in one commit, then notify viewers. Return the last seq.

    The row of the session is the lock that serialises writers, so `seq` has no gaps. With an epoch,
    the write is refused as soon as another worker holds the lane.
    """
    (seq,) = row(APPEND, [session_id, epoch, run_id, author_id, encode(events)])
    if processed := [event.id for event in events if event.type in PROCESSED_AT_ONCE]:
        SessionEvent.objects.filter(pk__in=processed).update(processed_at=Now())
    notify_log_grew(session_id)
    return int(seq)


def append_with_retry(
    session_id: UUID, events: Sequence[NewEvent], *, epoch: int, run_id: UUID
) -> None:
    """Append events of a run, even if the database restarts meanwhile."""
    commit_once(lambda: append_events(session_id, events, epoch=epoch, run_id=run_id))


COPY_EVENTS = """
INSERT INTO session_messages (id, workspace_id, session_id, seq, type, payload, run_id, processed_at,
                              processed_run_id, created_by_id, created_at)
SELECT new_id(), workspace_id, %s, seq, type, payload, run_id, processed_at, processed_run_id,
       created_by_id, created_at
  FROM session_messages WHERE session_id = %s AND seq <= %s
"""
IMPORT_EVENTS = """
INSERT INTO session_messages (id, workspace_id, session_id, seq, type, payload, processed_at, created_by_id,
                              created_at)
SELECT new_id(), s.workspace_id, s.id, e.nth, e.event ->> 'type', e.event -> 'payload',
       CASE WHEN e.nth <> ALL(%s) THEN
         coalesce((e.event ->> 'processed_at')::timestamptz, clock_timestamp()) END, %s,
       coalesce((e.event ->> 'created_at')::timestamptz, clock_timestamp())
  FROM agent_sessions s, jsonb_array_elements(%s::jsonb) WITH ORDINALITY e(event, nth) WHERE s.id = %s
"""
COUNT_COPIED = """
SELECT storage_add(s.workspace_id, (SELECT sum(event_bytes(m.payload, 1)) FROM session_messages m
                                     WHERE m.session_id = s.id)::bigint)
  FROM agent_sessions s WHERE s.id = %s
"""
SET_LAST_SEQ = "UPDATE agent_sessions SET last_seq = %s WHERE id = %s RETURNING last_seq"


def copy_events(source_id: UUID, target_id: UUID, up_to: int) -> None:
    """Copy the history of a session to a new one. Times are kept; waiting messages do not run
    there.
    """
    with connection.cursor() as cursor:
        cursor.execute(COPY_EVENTS, [target_id, source_id, up_to])
    _count(target_id, up_to)


def import_events(
    session_id: UUID, events: Sequence[dict[str, Any]], author_id: UUID | None
) -> None:
    """Fill a new session from an export. Everything counts as processed, so an import runs nothing.

    Withdrawn messages stay unprocessed, because no agent has read them.
    """
    withdrawn = [
        e["payload"]["seq"] for e in events if e["type"] == EventType.USER_MESSAGE_WITHDRAWN
    ]
    encoded = orjson.dumps(storable_json(events)).decode()
    with connection.cursor() as cursor:
        cursor.execute(IMPORT_EVENTS, [withdrawn, author_id, encoded, session_id])
    _count(session_id, len(events))


def _count(session_id: UUID, last_seq: int) -> None:
    """Store the last seq of a new session, and count the bytes of its events."""
    if last_seq:
        row(COUNT_COPIED, [session_id])
    row(SET_LAST_SEQ, [last_seq, session_id])
