"""Every write of the engine: one SQL function, one statement, one commit each.

`sql/workflows.sql` holds the rules. A write that carries a stale epoch is refused.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
from django.conf import settings
from django.db import connection, transaction

from core.db import connect
from core.exceptions import Fault, NotFound, StaleEpoch
from orchestrator.exceptions import InboxFull, WorkflowEnded
from sessions_app.log.sql import translated_errors

Body = dict[str, Any]

#: The error codes that the SQL functions raise.
ERRORS: dict[str, type[Fault]] = {
    "SY404": NotFound,
    "SY410": WorkflowEnded,
    "SY412": StaleEpoch,
    "SY429": InboxFull,
}

# ── Connections ──────────────────────────────────────────────────────────────────────────────────


class ConnectionPool:
    """A few connections, each lent to one thread at a time for one statement.

    Django would open a connection per thread, and prepare the engine's statements again in each.
    """

    def __init__(self, size: int) -> None:
        self._slots = threading.BoundedSemaphore(size)
        self._free: deque[psycopg.Connection[Any]] = deque()

    @contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Any]]:
        with self._slots:
            try:
                borrowed = self._free.pop()
            except IndexError:
                borrowed = connect()
                borrowed.prepare_threshold = 0
            try:
                yield borrowed
            finally:
                if not borrowed.closed and not borrowed.broken:
                    self._free.append(borrowed)

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


#: The pool of a worker process; other processes use Django's connection.
_pool: ConnectionPool | None = None


def use_pool() -> ConnectionPool:
    """Run this process's statements on the pool from now on."""
    global _pool
    _pool = _pool or ConnectionPool(settings.DATABASE_POOL)
    return _pool


def rows(query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of one statement. Outside a transaction it commits by itself."""
    with translated_errors(ERRORS):
        if _pool is None or connection.in_atomic_block:
            connection.ensure_connection()
            return _execute(connection.connection, query, params)
        with _pool.borrow() as borrowed:
            return _execute(borrowed, query, params)


def row(query: str, params: Sequence[Any]) -> tuple[Any, ...]:
    """Return the only row of a statement that always has one."""
    return rows(query, params)[0]


def _execute(
    on: psycopg.Connection[Any], query: str, params: Sequence[Any]
) -> list[tuple[Any, ...]]:
    # The server binds the parameters, so that the statement is planned once per connection.
    with psycopg.Cursor(on) as cursor:
        cursor.execute(query.encode(), params)
        return cursor.fetchall()


def to_json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def _from_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _by_field(made: type[Any], found: tuple[Any, ...]) -> Body:
    """Return a row by the fields of its dataclass, whose order is that of the columns."""
    return dict(zip((field.name for field in fields(made)), found, strict=True))


# ── Starting and claiming ────────────────────────────────────────────────────────────────────────

START = (
    "SELECT id, is_new, is_same FROM workflow_start("
    "%s, %s, %s, %s, %s, %s, %s::jsonb, %s::smallint, %s, %s, %s, %s)"
)
SET_KEY = "UPDATE workflows SET key_id = %s WHERE id = %s RETURNING id"
CLAIM = (
    "SELECT id, workspace_id, epoch, key, name, version, params::text, generation, agent_id, "
    "created_by_id, created_at, started_at, undoing::text "
    "FROM workflow_claim(%s, %s, %s, %s)"
)
HEARTBEAT = """
UPDATE workflows w SET lease_expires = clock_timestamp() + make_interval(secs => %s)
  FROM (SELECT id FROM workflows WHERE id = ANY(%s) AND lease_owner = %s
         ORDER BY id FOR NO KEY UPDATE) held
 WHERE w.id = held.id RETURNING w.id, w.epoch
"""
#: Run by the process that sees a worker die, so that its workflows are free at once.
EXPIRE = b"UPDATE workflows SET lease_expires = 'epoch' WHERE lease_owner = %s"


@dataclass(frozen=True, kw_only=True)
class NewWorkflow:
    """A workflow to start."""

    id: UUID
    workspace_id: UUID
    key: str
    name: str
    version: int
    params: Body
    created_by_id: UUID | None = None
    priority: int = 0
    concurrency_key: str = ""
    concurrency_limit: int | None = None
    parent_id: UUID | None = None
    agent_id: UUID | None = None
    #: The API key whose budget pays.
    key_id: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class StartedWorkflow:
    """The workflow of a key: started now, or before with the same or other params."""

    id: UUID
    is_new: bool
    is_same: bool


@dataclass(frozen=True, kw_only=True)
class WorkflowClaim:
    """The right to continue one workflow, until another holder has a higher epoch."""

    id: UUID
    workspace_id: UUID
    epoch: int
    key: str
    name: str
    version: int
    params: Body
    generation: int
    agent_id: UUID | None
    created_by_id: UUID | None
    created_at: datetime
    started_at: datetime
    undoing: Body | None

    @property
    def has_steps(self) -> bool:
        """Whether steps may be recorded: the first holder of all finds none."""
        return self.epoch > 1


def start(new: NewWorkflow) -> StartedWorkflow:
    """Create the workflow of this key unless there is one, and wake a worker."""
    if new.key_id is None:
        return _start(new)
    # One commit, so that no worker sees the workflow without the key that pays for it.
    with transaction.atomic():
        started = _start(new)
        if started.is_new:
            rows(SET_KEY, [new.key_id, started.id])
    return started


def _start(new: NewWorkflow) -> StartedWorkflow:
    params = [new.id, new.workspace_id, new.created_by_id, new.key, new.name, new.version]
    params += [to_json(new.params), new.priority, new.concurrency_key, new.concurrency_limit]
    id, is_new, is_same = row(START, [*params, new.parent_id, new.agent_id])
    return StartedWorkflow(id=id, is_new=is_new, is_same=is_same)


def claim_next(owner: UUID, versions: Sequence[str]) -> WorkflowClaim | None:
    """Claim the workflow that is due next, fairly between workspaces. It fences older holders."""
    params = [owner, settings.LEASE_SECONDS, list(versions), settings.WORKFLOWS_PER_WORKSPACE]
    claimed = rows(CLAIM, params)
    if not claimed:
        return None
    facts = _by_field(WorkflowClaim, claimed[0])
    facts |= {name: _from_json(facts[name]) for name in ("params", "undoing")}
    return WorkflowClaim(**facts)


def heartbeat(owner: UUID, workflow_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Renew this owner's leases in one statement. Return the epoch of each that it still holds."""
    return dict(rows(HEARTBEAT, [settings.LEASE_SECONDS, list(workflow_ids), owner]))


def release(claim: WorkflowClaim, reason: str) -> None:
    """Give the workflow back to the queue: another process continues it."""
    rows("SELECT workflow_release(%s, %s, %s)", [claim.id, claim.epoch, reason])


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────

STEPS = (
    "SELECT id, position, name, nth, kind, status, result, branch, error::text, attempts, "
    "detail::text, coalesce(retry_at > clock_timestamp(), false) "
    "FROM workflow_steps WHERE workflow_id = %s ORDER BY position"
)
ADVANCE = "SELECT state, result FROM workflow_advance(%s, %s, %s::jsonb, %s, %s::jsonb, %s::jsonb)"
GO_ON = "SELECT workflow_go_on(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
FINISH = "SELECT workflow_finish(%s, %s, %s::jsonb, %s, %s::jsonb, %s, %s, %s::jsonb)"


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """A step as an earlier holder recorded it."""

    id: UUID
    position: int
    name: str
    nth: int
    kind: str
    status: str
    result: str | None
    branch: str
    error: Body | None
    attempts: int
    detail: Body
    #: It failed, and its next attempt is not due.
    is_early: bool


def load_steps(workflow_id: UUID) -> list[RecordedStep]:
    found = [_by_field(RecordedStep, one) for one in rows(STEPS, [workflow_id])]
    for step in found:
        step |= {"error": _from_json(step["error"]), "detail": _from_json(step["detail"]) or {}}
    return [RecordedStep(**step) for step in found]


def advance(
    claim: WorkflowClaim,
    *,
    ended: Body | None = None,
    outcome: str | None = None,
    begun: Body | None = None,
    events: Sequence[Body] = (),
) -> tuple[str, str | None]:
    """End one step and begin the next. Return the state, and the result if it is there already."""
    params = [claim.id, claim.epoch, to_json(ended), outcome, to_json(begun)]
    state, result = row(ADVANCE, [*params, to_json(list(events) or None)])
    return state, result


def advance_quickly(claim: WorkflowClaim, ended: Body, outcome: str | None, begun: Body) -> bool:
    """Do the usual case of `advance`: a step succeeded, and the next is tried for the first time.

    Return False when it is another case, which `advance` sorts out.
    """
    params = [claim.id, claim.epoch, ended["position"], ended["attempt"], outcome, begun["id"]]
    params += [begun["position"], begun["name"], begun["nth"], begun["timeout"]]
    return bool(row(GO_ON, params)[0])


def suspend_branches(
    claim: WorkflowClaim,
    positions: Sequence[int],
    *,
    ended: Body | None = None,
    outcome: str | None = None,
    events: Sequence[Body] = (),
) -> None:
    """Suspend the workflow until the first of these steps, each of another branch, has ended."""
    params = [claim.id, claim.epoch, to_json(ended), outcome, to_json(list(events) or None)]
    rows("SELECT workflow_hold(%s, %s, %s::jsonb, %s, %s::jsonb, %s)", [*params, list(positions)])


def append_events(claim: WorkflowClaim, events: Sequence[Body]) -> None:
    params = [claim.id, claim.epoch, to_json(list(events))]
    rows("SELECT workflow_say(%s, %s, %s::jsonb)", params)


def begin_rollback(claim: WorkflowClaim, why: Body) -> None:
    """Record why the workflow is rolled back, so that a rollback continues after a crash."""
    params = [claim.id, claim.epoch, to_json(why)]
    rows("SELECT workflow_undo(%s, %s, NULL, %s::jsonb)", params)


def finish(
    claim: WorkflowClaim,
    becomes: str,
    *,
    result: str | None = None,
    error: Body | None = None,
    ended: Body | None = None,
    outcome: str | None = None,
    events: Sequence[Body] = (),
) -> None:
    params = [claim.id, claim.epoch, to_json(ended), outcome, to_json(list(events) or None)]
    rows(FINISH, [*params, becomes, result, to_json(error)])


def settle(
    workflow_id: UUID, position: int, becomes: str, *, result: Any = None, error: Body | None = None
) -> bool:
    """End a step that waits, and queue its workflow. Return False when it waits no more."""
    outcome = orjson.dumps(result).decode() if becomes == "complete" else None
    params = [workflow_id, position, becomes, outcome, to_json(error)]
    return bool(row("SELECT workflow_settle(%s, %s, %s, %s, %s::jsonb)", params)[0])
