"""The supervisor's work for sessions: lost and overdue runs, unanswered calls, lost wake-ups.

Everything is decided by rows and the database's clock, never by a flag that a dead process set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import DurationField, Func, OuterRef, Subquery
from django.db.models.functions import Coalesce, Now

from core.db import for_each
from sessions_app.approvals import approvals
from sessions_app.approvals.tool_calls import expire_custom_call
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import WAKE_CHANNEL, wake_many
from sessions_app.log.sql import lock_lane, rows
from sessions_app.models import Run, Session, ToolExecution
from tools_app.models import CustomTool

#: A wake-up without effect for this long is considered lost.
LOST_WAKE_SECONDS = 2.0
MAX_PER_SWEEP = 500
DUE = """
SELECT q.session_id FROM agent_run_queue q JOIN agent_sessions s ON s.id = q.session_id
 WHERE q.status = 'queued'
   AND (s.status IN ('idle', 'rescheduling') OR s.status = 'requires_action' AND q.resumes)
   AND coalesce(q.not_before, greatest(q.created_at, s.active_at) + make_interval(secs => %s))
       <= clock_timestamp()
 GROUP BY q.session_id ORDER BY min(q.created_at) LIMIT %s
"""
OVERDUE = """
SELECT session_id FROM agent_run_queue
 WHERE status = 'running' AND deadline < clock_timestamp() LIMIT %s
"""
STILL_OVERDUE = """
SELECT id FROM agent_run_queue
 WHERE session_id = %s AND status = 'running' AND deadline < clock_timestamp()
"""
#: The time that a client has for a call of a tool that was deleted since.
DEFAULT_TIMEOUT = 300


@dataclass(frozen=True, kw_only=True)
class RecoveryReport:
    """What one sweep found and repaired."""

    reaped: list[UUID]
    overdue: list[UUID]
    woken: list[UUID]
    #: Sessions with a call that no client answered in time.
    unanswered: list[UUID] = field(default_factory=list)
    #: Approvals that were not answered in time.
    expired: list[UUID] = field(default_factory=list)


def recover_lanes() -> RecoveryReport:
    """Sweep all lanes once."""
    reaped = run_queue.reap()
    overdue = for_each(
        [session_id for (session_id,) in rows(OVERDUE, [MAX_PER_SWEEP])], _end_overdue
    )
    unanswered = [session_id for session_id, _ in for_each(_unanswered_calls(), _expire_call)]
    expired = approvals.expire_overdue(MAX_PER_SWEEP)
    due = [session_id for (session_id,) in rows(DUE, [LOST_WAKE_SECONDS, MAX_PER_SWEEP])]
    if due:
        wake_many(due)
    return RecoveryReport(
        reaped=reaped, overdue=overdue, woken=due, unanswered=unanswered, expired=expired
    )


def _unanswered_calls() -> list[tuple[UUID, str]]:
    """Return calls that their client has not answered within the timeout of their tool."""
    tools = CustomTool.objects.filter(workspace=OuterRef("workspace"), name=OuterRef("name"))
    seconds = Coalesce(Subquery(tools.values("timeout_seconds")[:1]), DEFAULT_TIMEOUT)
    timeout = Func(
        seconds, template="make_interval(secs => %(expressions)s)", output_field=DurationField()
    )
    calls = ToolExecution.objects.filter(state=ToolExecution.State.RUNNING, ownership="custom")
    overdue = calls.filter(started_at__lt=Now() - timeout)
    return list(overdue.values_list("session_id", "tool_use_id")[:MAX_PER_SWEEP])


def _expire_call(call: tuple[UUID, str]) -> bool:
    session_id, tool_use_id = call
    return expire_custom_call(Session.objects.get(pk=session_id), tool_use_id)


@transaction.atomic
def _end_overdue(session_id: UUID) -> bool:
    """Stop the run that exceeded its deadline. Return False if it has ended since."""
    lock_lane(session_id)
    if not rows(STILL_OVERDUE, [session_id]):
        return False
    error = {"code": "deadline", "message": "The run exceeded its time limit.", "retryable": True}
    run_queue.stop(session_id, stop_reason="time_limit", outcome=Run.Status.FAILED, error=error)
    return True


def living_sessions(ids: Iterable[UUID]) -> set[UUID]:
    """Return those of these sessions that exist and are not archived."""
    found = Session.objects.filter(pk__in=list(ids), archived_at=None)
    return set(found.values_list("pk", flat=True))


def ping_workers() -> None:
    """Send a wake-up that only asks for a sign of life, all the way to a worker."""
    rows("SELECT pg_notify(%s, 'ping')", [WAKE_CHANNEL])
