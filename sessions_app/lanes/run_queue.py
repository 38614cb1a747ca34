"""The run queue: one run at a time per session. Accepts, claims, finishes, releases, stops, reaps.

Each step is one SQL function, and so one statement and one commit. `sql/lanes.sql` holds the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from agents.models.environment import DEFAULT_NAME
from core.ids import uuid7
from core.validation import storable_json
from sessions_app.approvals.approvals import cancel_pending, pending_in
from sessions_app.context.conversation import CONVERSATION_TYPES
from sessions_app.context.known_entries import MOST_NEW, KnownEntries, recent
from sessions_app.exceptions import RunOver, SessionEnded
from sessions_app.lanes.signals import wake
from sessions_app.live.publisher import notify_log_grew
from sessions_app.log.sql import lock_lane, row, rows
from sessions_app.log.writer import NewEvent, encode
from sessions_app.models import Run, Session, SessionEvent
from tenants.billing.spending import Charge

ACCEPT = (
    "SELECT seq, run, event_id, replayed FROM lane_accept("
    "%s, %s::jsonb, %s, %s, %s::smallint, %s, %s, %s)"
)
#: Everything that a run reads before its first model call; see `harness/turn.py`. What is always the
#: same is part of the text, as each run would convert it again.
LOADED = f"turn_load(%s, {{run}}, %s, '{{{{{','.join(CONVERSATION_TYPES)}}}}}', {MOST_NEW}, %s, %s, %s)::text"
CLAIM = f"SELECT run, epoch, {LOADED.format(run='run')} FROM lane_claim(%s, %s, %s, %s)"  # noqa: S608
LOAD = f"SELECT {LOADED.format(run='%s')}"
STEP = "SELECT lane_step(%s, %s, %s, '[]')"
FINISH = (
    "SELECT goes_on, run, epoch FROM lane_finish("
    "%s, %s, %s, %s::jsonb, %s, %s, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s, %s, %s, "
    "%s, %s, %s::numeric, %s::bigint, %s::bigint, %s::bigint)"
)
RELEASE = "SELECT lane_release(%s, %s, %s, %s, %s, %s, %s)"
STOP = "SELECT seq, stopped FROM lane_stop(%s, %s, %s::jsonb, %s, %s, %s::jsonb)"
#: A stopped session stops its sub-agents. The supervisor finishes this if the process dies.
STOP_CHILDREN = """
UPDATE subagent_spawns SET stop_asked = true
 WHERE parent_session_id = %s AND kind = 'spawn' AND status = 'running' RETURNING child_session_id
"""
RENEW_LEASES = """
UPDATE agent_sessions s SET lease_expires = clock_timestamp() + make_interval(secs => %s)
  FROM (SELECT id FROM agent_sessions WHERE id = ANY(%s) AND lease_owner = %s
         ORDER BY id FOR NO KEY UPDATE) held
 WHERE s.id = held.id RETURNING s.id, s.lane_epoch
"""
#: Run by the process that sees a worker die, so that its lanes are free at once.
EXPIRE_LEASES = b"UPDATE agent_sessions SET lease_expires = 'epoch' WHERE lease_owner = %s"

WORKSPACES_OF = "SELECT id, workspace_id FROM agent_sessions WHERE id = ANY(%s)"

#: A task that waited for an answer when its session was stopped has no run that could end it.
END_PARKED_TASK = """
UPDATE subagent_spawns w SET status = 'cancelled', stop_reason = 'interrupted',
       finished_at = clock_timestamp()
 WHERE w.child_session_id = %s AND w.status = 'running' AND NOT EXISTS (
   SELECT 1 FROM agent_run_queue q
    WHERE q.id = w.child_run_id AND q.status IN ('queued', 'running')) RETURNING w.id
"""
UNFINISHED_TASK = """
SELECT id FROM subagent_spawns
 WHERE child_session_id = %s AND kind = 'spawn' AND status = 'running' AND stop_asked
"""
CANCEL_QUEUED_TASK = """
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
class LoadedRun:
    """What `turn_load` in `sql/turns.sql` returned, and the entries that were known before."""

    facts: dict[str, Any]
    known: KnownEntries | None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The right to write for one run, until another worker holds a higher epoch."""

    session_id: UUID
    run_id: UUID
    epoch: int
    #: What the run needs, if it was read with the claim.
    loaded: LoadedRun | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What follows a run: more of the same run, the next run, or nothing."""

    goes_on: bool
    next: Claim | None


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The seq of the interrupt, and the run that was stopped, if any."""

    seq: int
    run_id: UUID | None


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def _text_json(value: dict[str, Any] | None) -> str | None:
    """Encode what may hold text of a model or a server, without what PostgreSQL cannot store."""
    return _json(storable_json(value))


def accept(
    session_id: UUID,
    event: NewEvent,
    *,
    author_id: UUID | None = None,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    priority: int = 0,
    limits: tuple[int | None, int | None] = (None, None),
) -> Accepted:
    """Append a message and queue its run in one commit, then wake the lane.

    Raise QueueFull if as many messages wait as the limits of the session and the workspace allow.
    What agents and schedules send has other limits, and must not be lost here.
    """
    message = encode([event])[1:-1]
    seq, run, event_id, replayed = row(
        ACCEPT, [session_id, message, author_id, on_busy, priority, uuid7(), *limits]
    )
    if not replayed:
        notify_log_grew(session_id)
    return Accepted(seq=seq, event_id=event_id, run_id=run)


@transaction.atomic
def request(
    session: Session,
    purpose: Run.Purpose,
    options: dict[str, Any],
    *,
    created_by_id: UUID | None,
    key_id: UUID | None = None,
) -> Run:
    """Queue a run that answers no message, behind the waiting runs.

    A second request returns the same run.
    """
    held = lock_lane(session.pk)
    session.refresh_from_db(fields=["status", "archived_at"])
    if session.status == Session.Status.TERMINATED or session.archived_at:
        raise SessionEnded
    queued = Run.objects.filter(session=session, purpose=purpose, status=Run.Status.QUEUED)
    if waiting := queued.first():
        return waiting
    run = Run.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        created_by_id=created_by_id,
        key_id=key_id,
        purpose=purpose,
        wishes=options,
        rank=held.last_seq,
    )
    wake(session.pk)
    run.refresh_from_db()
    return run


def claim(session_id: UUID, owner: UUID) -> Claim | None:
    """Take the lane if it is free and a run is due, and read what the run needs, in one statement.

    The epoch is raised, which fences older holders.
    """
    known = recent.get(session_id)
    limits = [settings.LEASE_SECONDS, settings.RUN_DEADLINE_SECONDS]
    run, epoch, facts = row(CLAIM, [session_id, *_known(known), session_id, owner, *limits])
    if run is None:
        return None
    # A quick answer is notified with it, and the worker has other things to do in this moment.
    notify_log_grew(session_id, is_urgent=False)
    loaded = LoadedRun(facts=orjson.loads(facts), known=known)
    return Claim(session_id=session_id, run_id=run, epoch=epoch, loaded=loaded)


def workspaces_of(session_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the workspace of each of these sessions."""
    return dict(rows(WORKSPACES_OF, [list(session_ids)]))


def load(claim: Claim) -> LoadedRun:
    """Read what a run needs, if it was not read with its claim."""
    if claim.loaded:
        return claim.loaded
    known = recent.get(claim.session_id)
    (facts,) = row(LOAD, [claim.session_id, claim.run_id, *_known(known)])
    return LoadedRun(facts=orjson.loads(facts), known=known)


def _known(known: KnownEntries | None) -> list[Any]:
    if known is None:
        return [DEFAULT_NAME, None, None, []]
    return [DEFAULT_NAME, known.snapshot_id, known.last_seq, list(known.waiting)]


def step(claim: Claim) -> int:
    """Take the messages that were steered into a run since its last step. Return how many there
    were.
    """
    (joined,) = row(STEP, [claim.session_id, claim.epoch, claim.run_id])
    return int(joined)


def finish(
    claim: Claim,
    owner: UUID | None,
    *,
    events: Sequence[NewEvent] = (),
    outcome: str = Run.Status.COMPLETED,
    stop_reason: str = "end_turn",
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    charge: Charge | None = None,
) -> Finished:
    """End the run with its last events, charge its last model call, and start the next run.

    All of it is one commit. Without an owner the lane is left free.
    """
    params = [claim.session_id, claim.epoch, claim.run_id, encode(events), outcome, stop_reason]
    params += [_text_json(result), _text_json(error), _json(usage or {}), _json(policy), owner]
    params += [settings.LEASE_SECONDS, settings.RUN_DEADLINE_SECONDS]
    params += charge.as_params() if charge else [None] * 6
    goes_on, run, epoch = row(FINISH, params)
    notify_log_grew(claim.session_id)
    following = Claim(session_id=claim.session_id, run_id=run, epoch=epoch) if run else None
    return Finished(goes_on=goes_on, next=following)


def release(claim: Claim, *, reason: str, delay: float = 0, lost: bool = False) -> str:
    """Give the run back to the queue. Return `queued`, or `dead` if it was lost too often."""
    (status,) = row(
        RELEASE,
        [
            claim.session_id,
            claim.epoch,
            claim.run_id,
            lost,
            float(delay),
            settings.RUN_MAX_ATTEMPTS,
            reason,
        ],
    )
    notify_log_grew(claim.session_id)
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
    """Stop what runs or waits in this session. The worker is fenced and told at once.

    With `only`, raise RunOver unless this very run would be stopped.
    """
    interrupt = NewEvent(
        type=SessionEvent.Type.USER_INTERRUPT, payload={"note": note}, dedupe_key=dedupe_key
    )
    event = encode([interrupt])[1:-1] if error is None else None
    with transaction.atomic():
        if only and not _is_stoppable(session_id, only):
            raise RunOver
        asked = pending_in(session_id)
        told = _text_json(error)
        seq, run_id = row(STOP, [session_id, author_id, event, stop_reason, outcome, told])
        cancel_pending(asked)
        notify_log_grew(session_id)
        rows(END_PARKED_TASK, [session_id])
        for (child_id,) in rows(STOP_CHILDREN, [session_id]):
            transaction.on_commit(partial(stop_child, child_id))
    return Stopped(seq=seq, run_id=run_id)


def _is_stoppable(session_id: UUID, run_id: UUID) -> bool:
    """Return, under the lock of the lane, whether this run is running or will go on."""
    lock_lane(session_id)
    begun = Q(status=Run.Status.RUNNING) | Q(
        Q(resumes=True) | Q(attempts__gt=0), status=Run.Status.QUEUED
    )
    return Run.objects.filter(begun, session_id=session_id, pk=run_id).exists()


@transaction.atomic
def stop_child(session_id: UUID) -> None:
    """Stop a sub-agent that still has its task, whether it has started or not."""
    lock_lane(session_id)
    if rows(UNFINISHED_TASK, [session_id]):
        stop(session_id, note="The session that asked for this was stopped.")
        rows(CANCEL_QUEUED_TASK, [session_id])


def heartbeat(owner: UUID, session_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Renew the leases of this owner in one statement. Return those it still holds, with their
    epochs.
    """
    return dict(rows(RENEW_LEASES, [settings.LEASE_SECONDS, list(session_ids), owner]))


def reap() -> list[UUID]:
    """Requeue every run whose lease has expired. Their old holders are fenced at once."""
    freed = [
        session_id for (session_id,) in rows("SELECT lane_reap(%s)", [settings.RUN_MAX_ATTEMPTS])
    ]
    for session_id in freed:
        notify_log_grew(session_id)
    return freed
