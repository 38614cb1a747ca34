"""One run at a time per session: accept, claim, finish, release, stop, reap.

Each step is one SQL function, so one statement and one commit. `sql/lanes.sql` holds the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from config.faults import RunOver
from sessions_app.approvals import cancel_pending, pending_in
from sessions_app.log import NewEvent, encode
from sessions_app.models import Run, SessionEvent
from sessions_app.statements import hold_lane, row, rows
from sessions_app.stream import ring
from tenants.ids import uuid7

ACCEPT = (
    "SELECT seq, run, event_id, replayed FROM lane_accept(%s, %s::jsonb, %s, %s, %s::smallint, %s)"
)
CLAIM = "SELECT run, epoch FROM lane_claim(%s, %s, %s, %s)"
STEP = "SELECT lane_step(%s, %s, %s, '[]')"
FINISH = (
    "SELECT goes_on, run, epoch FROM lane_finish("
    "%s, %s, %s, %s::jsonb, %s, %s, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s, %s, %s)"
)
RELEASE = "SELECT lane_release(%s, %s, %s, %s, %s, %s, %s)"
STOP = "SELECT seq, stopped FROM lane_stop(%s, %s, %s::jsonb, %s, %s, %s::jsonb)"
#: What a stopped session had given to others stops too; who is killed in between is finished for.
STOP_CHILDREN = """
UPDATE subagent_spawns SET stop_asked = true
 WHERE parent_session_id = %s AND kind = 'spawn' AND status = 'running' RETURNING child_session_id
"""
BEAT = """
UPDATE agent_sessions s SET lease_expires = clock_timestamp() + make_interval(secs => %s)
  FROM (SELECT id FROM agent_sessions WHERE id = ANY(%s) AND lease_owner = %s
         ORDER BY id FOR NO KEY UPDATE) held
 WHERE s.id = held.id RETURNING s.id, s.lane_epoch
"""
#: Run by whoever sees a worker die, so that its lanes are free at once.
EXPIRE = b"UPDATE agent_sessions SET lease_expires = 'epoch' WHERE lease_owner = %s"


#: A task that waited for somebody when its session was stopped has no run that could end it.
END_PARKED_TASK = """
UPDATE subagent_spawns w SET status = 'cancelled', stop_reason = 'interrupted',
       finished_at = clock_timestamp()
 WHERE w.child_session_id = %s AND w.status = 'running' AND NOT EXISTS (
   SELECT 1 FROM agent_run_queue q
    WHERE q.id = w.child_run_id AND q.status IN ('queued', 'running')) RETURNING w.id
"""
AT_ITS_TASK = """
SELECT id FROM subagent_spawns
 WHERE child_session_id = %s AND kind = 'spawn' AND status = 'running' AND stop_asked
"""
TAKE_BACK_TASK = """
UPDATE agent_run_queue q SET status = 'cancelled', stop_reason = 'interrupted',
       finished_at = clock_timestamp() FROM subagent_spawns w
 WHERE w.child_session_id = %s AND w.kind = 'spawn' AND q.id = w.child_run_id
   AND q.status = 'queued' RETURNING q.id
"""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A message in the log, and the run that will answer it."""

    seq: int
    event_id: UUID
    run_id: UUID | None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to write for one run, until somebody else has a higher epoch."""

    session_id: UUID
    run_id: UUID
    epoch: int


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What comes after a run: more of the same, the next one, or nothing."""

    goes_on: bool
    next: Claim | None


@dataclass(frozen=True, kw_only=True)
class Stopped:
    seq: int
    run_id: UUID | None


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def accept(
    session_id: UUID,
    event: NewEvent,
    *,
    author_id: UUID | None = None,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    priority: int = 0,
) -> Accepted:
    """Write a message and queue its run in one commit, then wake the lane."""
    message = encode([event])[1:-1]
    seq, run, event_id, replayed = row(
        ACCEPT, [session_id, message, author_id, on_busy, priority, uuid7()]
    )
    if not replayed:
        transaction.on_commit(partial(ring, session_id))
    return Accepted(seq=seq, event_id=event_id, run_id=run)


def claim(session_id: UUID, owner: UUID) -> Claim | None:
    """Take the lane if it is free and a run is due. It bumps the epoch, which fences older holders."""
    run, epoch = row(
        CLAIM, [session_id, owner, settings.LEASE_SECONDS, settings.RUN_DEADLINE_SECONDS]
    )
    if run is None:
        return None
    ring(session_id)
    return Claim(session_id=session_id, run_id=run, epoch=epoch)


def step(held: Claim) -> int:
    """Go on with a run. Answers how many messages were steered into it since the last step."""
    (joined,) = row(STEP, [held.session_id, held.epoch, held.run_id])
    return int(joined)


def finish(
    held: Claim,
    owner: UUID | None,
    *,
    events: Sequence[NewEvent] = (),
    outcome: str = Run.Status.COMPLETED,
    stop_reason: str = "end_turn",
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
) -> Finished:
    """End the run with its last events and start the next one, in one commit.

    Without an owner the lane is left free.
    """
    params = [held.session_id, held.epoch, held.run_id, encode(events), outcome, stop_reason]
    params += [_json(result), _json(error), _json(usage or {}), _json(policy), owner]
    goes_on, run, epoch = row(
        FINISH, [*params, settings.LEASE_SECONDS, settings.RUN_DEADLINE_SECONDS]
    )
    ring(held.session_id)
    following = Claim(session_id=held.session_id, run_id=run, epoch=epoch) if run else None
    return Finished(goes_on=goes_on, next=following)


def release(held: Claim, *, reason: str, delay: float = 0, lost: bool = False) -> str:
    """Give the run back to the queue. Answers `queued`, or `dead` when it was lost too often."""
    (status,) = row(
        RELEASE,
        [
            held.session_id,
            held.epoch,
            held.run_id,
            lost,
            float(delay),
            settings.RUN_MAX_ATTEMPTS,
            reason,
        ],
    )
    ring(held.session_id)
    return str(status)


def stop(
    session_id: UUID,
    *,
    note: str = "",
    only: UUID | None = None,
    author_id: UUID | None = None,
    dedupe_key: str | None = None,
    stop_reason: str = "interrupted",
    outcome: str = Run.Status.CANCELLED,
    error: dict[str, Any] | None = None,
) -> Stopped:
    """Stop what runs or waits in this session, at once. The worker is fenced and told.

    With `only`, nothing but this run: whoever wanted that stopped did not mean the one after it.
    """
    interrupt = NewEvent(
        type=SessionEvent.Type.USER_INTERRUPT, payload={"note": note}, dedupe_key=dedupe_key
    )
    event = encode([interrupt])[1:-1] if error is None else None
    with transaction.atomic():
        if only and not _has_begun(session_id, only):
            raise RunOver
        asked = pending_in(session_id)
        seq, run_id = row(STOP, [session_id, author_id, event, stop_reason, outcome, _json(error)])
        cancel_pending(asked)
        transaction.on_commit(partial(ring, session_id))
        rows(END_PARKED_TASK, [session_id])
        for (child_id,) in rows(STOP_CHILDREN, [session_id]):
            transaction.on_commit(partial(stop_child, child_id))
    return Stopped(seq=seq, run_id=run_id)


def _has_begun(session_id: UUID, run_id: UUID) -> bool:
    """Whether this run is at work or will go on, under the lane's lock: what a stop would end."""
    hold_lane(session_id)
    begun = Q(status=Run.Status.RUNNING) | Q(
        Q(resumes=True) | Q(attempts__gt=0), status=Run.Status.QUEUED
    )
    return Run.objects.filter(begun, session_id=session_id, pk=run_id).exists()


@transaction.atomic
def stop_child(session_id: UUID) -> None:
    """Stop a sub-agent, whether it has begun with its task or not. Once that is over, it is left alone."""
    hold_lane(session_id)
    if rows(AT_ITS_TASK, [session_id]):
        stop(session_id, note="The session that asked for this was stopped.")
        rows(TAKE_BACK_TASK, [session_id])


def heartbeat(owner: UUID, session_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Renew this owner's leases in one statement. Answers which it still holds, at which epoch."""
    return dict(rows(BEAT, [settings.LEASE_SECONDS, list(session_ids), owner]))


def reap() -> list[UUID]:
    """Take back every run whose lease has run out. Fences the old holders at once."""
    freed = [
        session_id for (session_id,) in rows("SELECT lane_reap(%s)", [settings.RUN_MAX_ATTEMPTS])
    ]
    for session_id in freed:
        ring(session_id)
    return freed
