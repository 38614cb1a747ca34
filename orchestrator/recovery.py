"""What the supervisor does for workflows: take back lost ones, end overdue attempts, repeat wake-ups.

Everything is decided by rows and the database's clock, never by a flag that a dead process set.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from orchestrator import gates
from orchestrator.engine.definition import known_versions, registry, version_gone
from orchestrator.engine.ringing import ring_all
from orchestrator.engine.settling import settle_child, settle_run
from orchestrator.engine.statements import row, rows
from orchestrator.engine.store import dump
from orchestrator.lifecycle import stop_what_it_started
from orchestrator.models import Workflow
from sessions_app.row_by_row import for_each
from sessions_app.wake import CHANNEL

AT_ONCE = 500
#: A wake-up that has had no effect for this long is taken to be lost.
LOST_WAKE_SECONDS = 2.0
#: How long a workflow waits for a worker that knows its version, while workers are replaced.
GRACE_SECONDS = 30.0
#: The same when its version is not older than all that is known here: this code may be the older
#: one, and that of another machine knows it.
NEWER_GRACE_SECONDS = 600.0
#: Some of what waits too long; a full queue needs no more wake-ups than there are workers' threads.
WAKE = """
SELECT pg_notify(%s, 'workflow:' || q.id) FROM (
  SELECT id FROM workflows WHERE status = 'queued'
     AND queued_at < clock_timestamp() - make_interval(secs => %s) LIMIT 20) q
"""
#: What waits for a run or a child that is over: its wake-up was lost. A turn that rests until a
#: person answers is not: any number of those must not hide the others.
UNSETTLED = """
SELECT s.run_id, s.child_id FROM workflows w
  JOIN LATERAL (
    SELECT o.run_id, o.child_id, o.status FROM workflow_steps o
     WHERE o.workflow_id = w.id AND o.position = w.open_position
    UNION ALL
    SELECT b.run_id, b.child_id, b.status FROM workflow_steps b
     WHERE w.open_position IS NULL AND b.workflow_id = w.id AND b.branch <> '') s ON true
  LEFT JOIN agent_run_queue q ON q.id = s.run_id
  LEFT JOIN agent_sessions a ON a.id = q.session_id
  LEFT JOIN workflows c ON c.id = s.child_id
 WHERE w.status IN ('waiting', 'waiting_approval', 'paused') AND s.status = 'waiting'
   AND (q.status IN ('completed', 'failed', 'cancelled', 'dead') AND NOT (
          q.stop_reason = 'requires_action' AND a.status = 'requires_action' AND NOT EXISTS (
            SELECT 1 FROM agent_run_queue n WHERE n.session_id = a.id AND NOT n.resumes
               AND n.started_at > q.started_at))
        OR c.status IN ('complete', 'errored', 'terminated')) LIMIT %s
"""
#: What workflows that are over wait for in vain: they were given up, or who ended them was lost
#: before that was stopped too. Whoever is terminated takes all children along.
LEFT_OVER = """
SELECT p.id FROM workflows c JOIN workflows p ON p.id = c.parent_id
 WHERE c.status IN ('queued', 'running', 'waiting', 'waiting_approval')
   AND (p.status = 'terminated' OR p.status = 'errored' AND EXISTS (
     SELECT 1 FROM workflow_steps s
      WHERE s.child_id = c.id AND s.workflow_id = p.id AND s.status = 'waiting'))
UNION
SELECT w.id FROM agent_run_queue q JOIN workflow_steps s ON s.run_id = q.id
  JOIN workflows w ON w.id = s.workflow_id
 WHERE q.status IN ('queued', 'running') AND s.status = 'waiting'
   AND w.status IN ('errored', 'terminated')
UNION
SELECT w.id FROM approvals a
  JOIN agent_run_queue q ON q.session_id = a.session_id AND q.stop_reason = 'requires_action'
  JOIN workflow_steps s ON s.run_id = q.id JOIN workflows w ON w.id = s.workflow_id
 WHERE a.status = 'pending' AND s.status = 'waiting' AND w.status IN ('errored', 'terminated')
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
class Seen:
    """What one look found and mended."""

    fired: list[UUID]
    reaped: list[UUID]
    overdue: list[UUID]
    woken: int


def look() -> Seen:
    """One look at all workflows."""
    fired = fire_due()
    reaped = _ids("SELECT workflow_reap(%s)", [settings.WORKFLOW_MAX_RECOVERIES])
    overdue = _ids("SELECT workflow_end_overdue()", [])
    ring_all([*reaped, *overdue])
    woken = rows(WAKE, [CHANNEL, LOST_WAKE_SECONDS])
    return Seen(fired=fired, reaped=reaped, overdue=overdue, woken=len(woken))


def fire_due() -> list[UUID]:
    """End the sleeps and waits whose time is up, and queue what is to be tried again."""
    fired: list[UUID] = []
    while found := _ids("SELECT workflow_fire_due(%s)", [AT_ONCE]):
        ring_all(found)
        gates.tell_expired(found)
        fired += found
        if len(found) < AT_ONCE:
            break
    return fired


def seconds_to_next() -> float | None:
    """When the next timer is due, by the database's clock."""
    (seconds,) = row(
        "SELECT extract(epoch FROM min(wake_at) - clock_timestamp())::float FROM workflows "
        "WHERE status IN ('waiting', 'waiting_approval')",
        [],
    )
    return seconds


def settle_lost() -> list[UUID]:
    """Go on with what waits for something that is over already."""
    settled: list[UUID] = []

    def settle(over: tuple[UUID | None, UUID]) -> None:
        run_id, child_id = over
        if workflow_id := settle_run(run_id) if run_id else settle_child(child_id):
            settled.append(workflow_id)

    for_each(rows(UNSETTLED, [AT_ONCE]), settle)
    ring_all(settled)
    return settled


def stop_left_over() -> list[UUID]:
    """Stop the agents and children of workflows that are over and still seem to wait for them."""
    ids = _ids(LEFT_OVER, [AT_ONCE])
    for_each(Workflow.objects.filter(pk__in=ids), _stop_for)
    return ids


def _stop_for(ended: Workflow) -> None:
    is_failed = ended.status != Workflow.Status.TERMINATED
    stop_what_it_started(ended, ended.created_by_id, only_awaited=is_failed)


def fail_orphans(
    grace: float = GRACE_SECONDS, newer_grace: float = NEWER_GRACE_SECONDS
) -> list[UUID]:
    """End workflows whose version no code knows any more, and say so."""
    names, versions = [name for name, _ in registry], [version for _, version in registry]
    asked = [known_versions(), names, versions, grace, newer_grace, AT_ONCE]
    failed = [id for id, _, _ in for_each(rows(ORPHANS, asked), _fail_orphan)]
    ring_all(failed)
    return failed


def _fail_orphan(orphan: tuple[UUID, str, int]) -> bool:
    id, name, version = orphan
    params = [id, "errored", dump(version_gone(name, version)), "no code knows it", "queued"]
    return bool(row("SELECT workflow_stop(%s, %s, %s::jsonb, %s, %s)", params)[0])


def forget_old() -> int:
    """Delete what ended long ago, with its steps and its log."""
    if not settings.WORKFLOW_RETENTION_DAYS:
        return 0
    before = timezone.now() - timedelta(days=settings.WORKFLOW_RETENTION_DAYS)
    old = Workflow.objects.over().filter(finished_at__lt=before).order_by("finished_at")
    ids = list(old.values_list("pk", flat=True)[:AT_ONCE])
    deleted, _ = Workflow.objects.filter(pk__in=ids).delete()
    return len(ids) if deleted else 0


def _ids(query: str, params: list[object]) -> list[UUID]:
    return [id for (id,) in rows(query, params)]
