"""Recovers workflows and fires their timers; the supervisor runs it.

Everything is decided by rows and the database's clock, never by a flag that a dead process set.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error
from django.utils import timezone

from core.db import for_each, release_connection
from core.pg_listen import subscribe
from orchestrator.engine import approvals
from orchestrator.engine.definition import known_versions, registry, unknown_version_error
from orchestrator.engine.lifecycle import stop_started_work
from orchestrator.engine.publisher import notify_viewers
from orchestrator.engine.store import row, rows, to_json
from orchestrator.engine.waits import settle_child, settle_run
from orchestrator.models import Workflow
from sessions_app.lanes.signals import WAKE_CHANNEL

log = structlog.get_logger(__name__)

BATCH = 500
#: A wake-up that has had no effect for this long is taken to be lost.
LOST_WAKE_SECONDS = 2.0
#: How long a workflow waits for a worker that knows its version, while workers are replaced.
GRACE_SECONDS = 30.0
#: The same for a version newer than all that this process knows: another machine may have that code.
NEWER_GRACE_SECONDS = 600.0
#: Repeats some lost wake-ups; a full queue needs no more than there are threads in the workers.
WAKE = """
SELECT pg_notify(%s, 'workflow:' || q.id) FROM (
  SELECT id FROM workflows WHERE status = 'queued'
     AND queued_at < clock_timestamp() - make_interval(secs => %s) LIMIT 20) q
"""
#: Steps that wait for a run or child that is over, because its wake-up was lost. Turns that wait for
#: a person are excluded, so that any number of them cannot hide the others.
UNSETTLED = """
SELECT s.run_id, s.child_id FROM workflows w
  JOIN LATERAL (
    SELECT o.run_id, o.child_id, o.status FROM workflow_steps o
     WHERE o.workflow_id = w.id AND o.position = w.open_position
    UNION ALL
    SELECT b.run_id, b.child_id, b.status FROM workflow_steps b
     WHERE w.open_position IS NULL AND b.workflow_id = w.id AND b.branch <> '') s ON true
  LEFT JOIN workflows c ON c.id = s.child_id
 WHERE w.status IN ('waiting', 'waiting_approval', 'paused') AND s.status = 'waiting'
   AND (turn_is_over(s.run_id) OR c.status IN ('complete', 'errored', 'terminated')) LIMIT %s
"""
#: Workflows that are over and left work running: they were given up, or the process that ended them
#: died before it stopped that work. A terminated workflow stops all its children.
ABANDONED = """
SELECT p.id FROM workflows c JOIN workflows p ON p.id = c.parent_id
 WHERE c.status IN ('queued', 'running', 'waiting', 'waiting_approval')
   AND (p.status = 'terminated' OR p.status = 'errored' AND EXISTS (
     SELECT 1 FROM workflow_steps s
      WHERE s.child_id = c.id AND s.workflow_id = p.id AND s.status = 'waiting'))
UNION
SELECT w.id FROM open_runs() q(id) JOIN workflow_steps s ON s.run_id = q.id
  JOIN workflows w ON w.id = s.workflow_id
 WHERE s.status = 'waiting' AND w.status IN ('errored', 'terminated')
LIMIT %s
"""
ORPHANS = """
SELECT id, name, version FROM workflows w
 WHERE status = 'queued' AND name || '@' || version <> ALL (%s)
   AND queued_at < clock_timestamp() - make_interval(secs => CASE WHEN EXISTS (
     SELECT 1 FROM unnest(%s::text[], %s::int[]) AS k (name, version)
      WHERE k.name = w.name AND k.version > w.version) THEN %s ELSE %s END)
 LIMIT %s
"""


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """What one pass found and repaired."""

    fired: list[UUID]
    reaped: list[UUID]
    overdue: list[UUID]
    woken: int


def recover() -> Recovered:
    """Fire timers, reap lost workflows, end overdue attempts and repeat lost wake-ups, once."""
    fired = fire_due()
    reaped = _ids("SELECT workflow_reap(%s)", [settings.WORKFLOW_MAX_RECOVERIES])
    overdue = _ids("SELECT workflow_end_overdue()", [])
    notify_viewers([*reaped, *overdue])
    woken = rows(WAKE, [WAKE_CHANNEL, LOST_WAKE_SECONDS])
    return Recovered(fired=fired, reaped=reaped, overdue=overdue, woken=len(woken))


def settle_lost() -> list[UUID]:
    """Settle steps that wait for something that is over already."""
    settled: list[UUID] = []

    def settle(over: tuple[UUID | None, UUID]) -> None:
        run_id, child_id = over
        if workflow_id := settle_run(run_id) if run_id else settle_child(child_id):
            settled.append(workflow_id)

    for_each(rows(UNSETTLED, [BATCH]), settle)
    notify_viewers(settled)
    return settled


def stop_abandoned() -> list[UUID]:
    """Stop the agents and children that workflows left running when they ended."""
    ids = _ids(ABANDONED, [BATCH])
    for_each(Workflow.objects.filter(pk__in=ids), _stop_abandoned)
    return ids


def _stop_abandoned(ended: Workflow) -> None:
    is_failed = ended.status != Workflow.Status.TERMINATED
    stop_started_work(ended, ended.created_by_id, only_awaited=is_failed)


def fail_orphans(
    grace: float = GRACE_SECONDS, newer_grace: float = NEWER_GRACE_SECONDS
) -> list[UUID]:
    """Fail workflows whose version no code knows any more."""
    names, versions = [name for name, _ in registry], [version for _, version in registry]
    params = [known_versions(), names, versions, grace, newer_grace, BATCH]
    failed = [id for id, _, _ in for_each(rows(ORPHANS, params), _fail_orphan)]
    notify_viewers(failed)
    return failed


def _fail_orphan(orphan: tuple[UUID, str, int]) -> bool:
    id, name, version = orphan
    error = to_json(unknown_version_error(name, version))
    params = [id, "errored", error, "unknown version", "queued"]
    return bool(row("SELECT workflow_stop(%s, %s, %s::jsonb, %s, %s)", params)[0])


def delete_expired() -> int:
    """Delete workflows that ended before the retention period, with their steps and logs."""
    if not settings.WORKFLOW_RETENTION_DAYS:
        return 0
    before = timezone.now() - timedelta(days=settings.WORKFLOW_RETENTION_DAYS)
    old = Workflow.objects.over().filter(finished_at__lt=before).order_by("finished_at")
    ids = list(old.values_list("pk", flat=True)[:BATCH])
    deleted, _ = Workflow.objects.filter(pk__in=ids).delete()
    return len(ids) if deleted else 0


def _ids(query: str, params: list[object]) -> list[UUID]:
    return [id for (id,) in rows(query, params)]


# ── Timers ───────────────────────────────────────────────────────────────────────────────────────

TIMER_CHANNEL = "switchyard_timer"
#: The longest sleep: a stop is seen, and a lost notification made up for, within it.
MAX_SLEEP_SECONDS = 1.0
#: The shortest, so that a timer that is almost due is not polled in a busy loop.
MIN_SLEEP_SECONDS = 0.001
#: The pause after the database failed.
PAUSE_SECONDS = 0.5


def fire_due() -> list[UUID]:
    """End the sleeps and waits whose time is up, and queue the steps whose retry is due."""
    fired: list[UUID] = []
    while batch := _ids("SELECT workflow_fire_due(%s)", [BATCH]):
        notify_viewers(batch)
        approvals.announce_expired(batch)
        fired += batch
        if len(batch) < BATCH:
            break
    return fired


def seconds_to_next() -> float | None:
    """Return the seconds until the next timer is due, by the database's clock."""
    (seconds,) = row(
        "SELECT extract(epoch FROM min(wake_at) - clock_timestamp())::float FROM workflows "
        "WHERE status IN ('waiting', 'waiting_approval')",
        [],
    )
    return seconds


@contextmanager
def timers(stop: threading.Event) -> Iterator[None]:
    """Fire timers on time in a thread while the block runs."""
    changed = threading.Event()
    thread = threading.Thread(target=fire_timers, args=(stop, changed), name="timers", daemon=True)
    with subscribe(TIMER_CHANNEL, lambda _: changed.set(), missed=changed.set):
        thread.start()
        yield
        stop.set()
        changed.set()
        thread.join(5)


def fire_timers(stop: threading.Event, changed: threading.Event) -> None:
    """Fire what is due until `stop` is set: sleep until the next timer, or until one `changed`."""
    while not stop.is_set():
        changed.clear()  # before the look, so that a timer set meanwhile is not slept through
        try:
            fire_due()
            due = seconds_to_next()
        except Error:
            log.warning("timers_failed", exc_info=True)
            release_connection()
            due = PAUSE_SECONDS
        seconds = due if due is not None else MAX_SLEEP_SECONDS
        changed.wait(min(max(seconds, MIN_SLEEP_SECONDS), MAX_SLEEP_SECONDS))
    release_connection()
