"""Every write of the engine: one SQL function, one statement, one commit each.

`sql/workflows.sql` holds the rules. A write that carries a stale epoch is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from orchestrator.engine.statements import row, rows

Body = dict[str, Any]

START = (
    "SELECT id, is_new, is_same FROM workflow_start("
    "%s, %s, %s, %s, %s, %s, %s::jsonb, %s::smallint, %s, %s, %s, %s)"
)
CLAIM = (
    "SELECT id, workspace_id, epoch, key, name, version, params::text, generation, agent_id, "
    "created_by_id, created_at, started_at, undoing::text "
    "FROM workflow_claim(%s, %s, %s, %s)"
)
RECORDED = (
    "SELECT id, position, name, nth, kind, status, result, branch, error::text, attempts, "
    "detail::text, retry_at > clock_timestamp() "
    "FROM workflow_steps WHERE workflow_id = %s ORDER BY position"
)
ADVANCE = "SELECT state, result FROM workflow_advance(%s, %s, %s::jsonb, %s, %s::jsonb, %s::jsonb)"
GO_ON = "SELECT workflow_go_on(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
FINISH = "SELECT workflow_finish(%s, %s, %s::jsonb, %s, %s::jsonb, %s, %s, %s::jsonb)"
BEAT = """
UPDATE workflows w SET lease_expires = clock_timestamp() + make_interval(secs => %s)
  FROM (SELECT id FROM workflows WHERE id = ANY(%s) AND lease_owner = %s
         ORDER BY id FOR NO KEY UPDATE) held
 WHERE w.id = held.id RETURNING w.id, w.epoch
"""
#: Run by whoever sees a worker die, so that what it held is free at once.
EXPIRE = b"UPDATE workflows SET lease_expires = 'epoch' WHERE lease_owner = %s"


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """The right to go on with one workflow, until somebody else has a higher epoch."""

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
    has_steps: bool


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A step as it was written down."""

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
    #: It is to be tried again, and not yet.
    is_early: bool


@dataclass(frozen=True, kw_only=True)
class NewWorkflow:
    """What is to be started."""

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


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A workflow that is there now, whoever made it."""

    id: UUID
    is_new: bool
    is_same: bool


def dump(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def _load(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def start(new: NewWorkflow) -> Begun:
    """Make the workflow of this key unless there is one, and wake a worker."""
    limits = [new.priority, new.concurrency_key, new.concurrency_limit]
    params: list[Any] = [
        new.id,
        new.workspace_id,
        new.created_by_id,
        new.key,
        new.name,
        new.version,
    ]
    params += [dump(new.params), *limits, new.parent_id, new.agent_id]
    id, is_new, is_same = row(START, params)
    return Begun(id=id, is_new=is_new, is_same=is_same)


def claim(owner: UUID, known: Sequence[str]) -> Claimed | None:
    """Take what is due and fair, under a new epoch, which fences older holders."""
    params = [owner, settings.LEASE_SECONDS, list(known), settings.WORKFLOWS_PER_WORKSPACE]
    found = rows(CLAIM, params)
    if not found:
        return None
    id, yard, epoch, key, name, version, args, generation, agent, author, *rest = found[0]
    created_at, started_at, undoing = rest
    return Claimed(
        id=id,
        workspace_id=yard,
        epoch=epoch,
        key=key,
        name=name,
        version=version,
        params=_load(args),
        generation=generation,
        agent_id=agent,
        created_by_id=author,
        created_at=created_at,
        started_at=started_at,
        undoing=_load(undoing),
        # The first holder of all finds none.
        has_steps=epoch > 1,
    )


def recorded(workflow_id: UUID) -> list[Recorded]:
    names = ("id", "position", "name", "nth", "kind", "status", "result", "branch")
    return [
        Recorded(
            **dict(zip(names, found[:8], strict=True)),
            error=_load(found[8]),
            attempts=found[9],
            detail=_load(found[10]) or {},
            is_early=bool(found[11]),
        )
        for found in rows(RECORDED, [workflow_id])
    ]


def advance(
    held: Claimed,
    *,
    ended: Body | None = None,
    outcome: str | None = None,
    begun: Body | None = None,
    notes: Sequence[Body] = (),
) -> tuple[str, str | None]:
    """End one step and begin the next. Answers with the state, and a result that was there."""
    params = [held.id, held.epoch, dump(ended), outcome, dump(begun), dump(list(notes) or None)]
    state, result = row(ADVANCE, params)
    return state, result


def go_on(held: Claimed, ended: Body, outcome: str | None, begun: Body) -> bool:
    """The usual case: a step ended well and the next is tried for the first time."""
    params = [held.id, held.epoch, ended["position"], ended["attempt"], outcome, begun["id"]]
    params += [begun["position"], begun["name"], begun["nth"], begun["timeout"]]
    return bool(row(GO_ON, params)[0])


def hold(
    held: Claimed,
    waits: Sequence[int],
    *,
    ended: Body | None = None,
    outcome: str | None = None,
    notes: Sequence[Body] = (),
) -> None:
    """Every branch waits: leave until the first of these steps is over."""
    params = [held.id, held.epoch, dump(ended), outcome, dump(list(notes) or None), list(waits)]
    rows("SELECT workflow_hold(%s, %s, %s::jsonb, %s, %s::jsonb, %s)", params)


def say(held: Claimed, notes: Sequence[Body]) -> None:
    rows("SELECT workflow_say(%s, %s, %s::jsonb)", [held.id, held.epoch, dump(list(notes))])


def undo(held: Claimed, why: Body) -> None:
    """Say why it is undone, so that a crash in the middle goes on undoing."""
    rows("SELECT workflow_undo(%s, %s, NULL, %s::jsonb)", [held.id, held.epoch, dump(why)])


def finish(
    held: Claimed,
    becomes: str,
    *,
    result: str | None = None,
    error: Body | None = None,
    ended: Body | None = None,
    outcome: str | None = None,
    notes: Sequence[Body] = (),
) -> None:
    params = [held.id, held.epoch, dump(ended), outcome, dump(list(notes) or None)]
    rows(FINISH, [*params, becomes, result, dump(error)])


def release(held: Claimed, reason: str) -> None:
    """Give it back to the queue: another process goes on."""
    rows("SELECT workflow_release(%s, %s, %s)", [held.id, held.epoch, reason])


def settle(
    workflow_id: UUID, position: int, becomes: str, *, result: Any = None, error: Body | None = None
) -> bool:
    """Give a step that waits its end. False when it waits no more."""
    outcome = orjson.dumps(result).decode() if becomes == "complete" else None
    params = [workflow_id, position, becomes, outcome, dump(error)]
    return bool(row("SELECT workflow_settle(%s, %s, %s, %s, %s::jsonb)", params)[0])


def heartbeat(owner: UUID, workflow_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Renew this owner's leases in one statement. Answers which it still holds, at which epoch."""
    return dict(rows(BEAT, [settings.LEASE_SECONDS, list(workflow_ids), owner]))
