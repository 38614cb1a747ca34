"""The only module that writes to the session log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.db import connection, transaction
from django.db.models.functions import Now

from sessions_app.models import SessionEvent
from sessions_app.statements import commit_once, row
from sessions_app.stream import ring
from tenants.ids import uuid7
from tools_app.clip import storable_json

APPEND = "SELECT log_append(%s, %s, %s, %s, %s::jsonb)"
E = SessionEvent.Type
#: What they say is done in the commit that writes them: no run has to take them.
DONE_AT_ONCE = frozenset(
    {
        E.USER_TOOL_CONFIRMATION,
        E.USER_CUSTOM_TOOL_RESULT,
        E.USER_MESSAGE_EDITED,
        E.USER_MESSAGE_WITHDRAWN,
    }
)


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """A fact that is about to be written."""

    type: SessionEvent.Type
    payload: dict[str, Any]
    id: UUID = field(default_factory=uuid7)
    dedupe_key: str | None = None
    #: With which key a message was sent; its run remembers it.
    key_id: UUID | None = None


def encode(events: Sequence[NewEvent]) -> str:
    """Events as the SQL functions take them. What PostgreSQL cannot store as text is replaced."""
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
    """Append in order, in one commit, then ring the stream. Answers with the last seq.

    The session row is the lock that serialises writers, so `seq` has no gaps. With an epoch the
    write is refused as soon as another worker holds the lane.
    """
    (seq,) = row(APPEND, [session_id, epoch, run_id, author_id, encode(events)])
    if done := [event.id for event in events if event.type in DONE_AT_ONCE]:
        SessionEvent.objects.filter(pk__in=done).update(processed_at=Now())
    transaction.on_commit(partial(ring, session_id))
    return int(seq)


def append_surely(
    session_id: UUID, events: Sequence[NewEvent], *, epoch: int, run_id: UUID
) -> None:
    """Append for a run, through a restart of the database if need be."""
    commit_once(lambda: append_events(session_id, events, epoch=epoch, run_id=run_id))


COPY = """
INSERT INTO session_messages (id, workspace_id, session_id, seq, type, payload, run_id, processed_at,
                              processed_run_id, created_by_id, created_at)
SELECT new_id(), workspace_id, %s, seq, type, payload, run_id, processed_at, processed_run_id,
       created_by_id, created_at
  FROM session_messages WHERE session_id = %s AND seq <= %s
"""
IMPORT = """
INSERT INTO session_messages (id, workspace_id, session_id, seq, type, payload, processed_at, created_by_id,
                              created_at)
SELECT new_id(), s.workspace_id, s.id, e.nth, e.event ->> 'type', e.event -> 'payload',
       CASE WHEN e.nth <> ALL(%s) THEN
         coalesce((e.event ->> 'processed_at')::timestamptz, clock_timestamp()) END, %s,
       coalesce((e.event ->> 'created_at')::timestamptz, clock_timestamp())
  FROM agent_sessions s, jsonb_array_elements(%s::jsonb) WITH ORDINALITY e(event, nth) WHERE s.id = %s
"""
GROWN = "UPDATE agent_sessions SET last_seq = %s WHERE id = %s RETURNING last_seq"


def copy_events(source_id: UUID, target_id: UUID, up_to: int) -> None:
    """Give a new session the past of another. Times stay; what waited there does not run here."""
    with connection.cursor() as cursor:
        cursor.execute(COPY, [target_id, source_id, up_to])
    row(GROWN, [up_to, target_id])


def import_events(
    session_id: UUID, events: Sequence[dict[str, Any]], author_id: UUID | None
) -> None:
    """Fill a new session from an export. All of it counts as processed: an import runs nothing.

    But for what was taken back: nobody has read it, and nobody ever will.
    """
    withdrawn = [e["payload"]["seq"] for e in events if e["type"] == E.USER_MESSAGE_WITHDRAWN]
    told = orjson.dumps(storable_json(events)).decode()
    with connection.cursor() as cursor:
        cursor.execute(IMPORT, [withdrawn, author_id, told, session_id])
    row(GROWN, [len(events), session_id])
