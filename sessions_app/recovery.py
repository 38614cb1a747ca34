"""What the supervisor does for sessions: lost runs, overdue runs and questions, lost wake-ups.

Everything is decided by rows and the database's clock, never by a flag that a dead process set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction

from sessions_app import approvals, lanes
from sessions_app.confirmations import give_up_custom
from sessions_app.models import Run, Session
from sessions_app.row_by_row import for_each
from sessions_app.statements import hold_lane, rows
from sessions_app.wake import CHANNEL, wake_many

#: A wake-up that has had no effect for this long is taken to be lost.
LOST_WAKE_SECONDS = 2.0
AT_ONCE = 500
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
#: Calls that went out to a client, and were not answered within the time of their tool. A tool
#: that was deleted since leaves its calls the usual time.
UNANSWERED = """
SELECT t.session_id, t.tool_use_id FROM tool_executions t
  LEFT JOIN agent_custom_tools c ON c.workspace_id = t.workspace_id AND c.name = t.name
 WHERE t.state = 'running' AND t.ownership = 'custom'
   AND t.started_at + make_interval(secs => coalesce(c.timeout_seconds, 300)) < clock_timestamp()
 LIMIT %s
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one look found and mended."""

    reaped: list[UUID]
    overdue: list[UUID]
    woken: list[UUID]
    #: Sessions with a call that no client answered in time.
    unanswered: list[UUID] = field(default_factory=list)
    #: Approvals that nobody answered in time.
    expired: list[UUID] = field(default_factory=list)


def look() -> Seen:
    """One look at all lanes."""
    reaped = lanes.reap()
    overdue = for_each([session_id for (session_id,) in rows(OVERDUE, [AT_ONCE])], _end_overdue)
    unanswered = [session_id for session_id, _ in for_each(rows(UNANSWERED, [AT_ONCE]), _give_up)]
    expired = approvals.expire_overdue(AT_ONCE)
    due = [session_id for (session_id,) in rows(DUE, [LOST_WAKE_SECONDS, AT_ONCE])]
    if due:
        wake_many(due)
    return Seen(reaped=reaped, overdue=overdue, woken=due, unanswered=unanswered, expired=expired)


def _give_up(call: tuple[UUID, str]) -> bool:
    session_id, tool_use_id = call
    return give_up_custom(Session.objects.get(pk=session_id), tool_use_id)


@transaction.atomic
def _end_overdue(session_id: UUID) -> bool:
    """Stop the run that took too long. False: it has ended since, and the next one is not to blame."""
    hold_lane(session_id)
    if not rows(STILL_OVERDUE, [session_id]):
        return False
    error = {"code": "deadline", "message": "The run took longer than it may.", "retryable": True}
    lanes.stop(session_id, stop_reason="step_limit", outcome=Run.Status.FAILED, error=error)
    return True


def living_sessions(ids: Iterable[UUID]) -> set[UUID]:
    """Of these sessions, the ones that exist and are not archived."""
    found = Session.objects.filter(pk__in=list(ids), archived_at=None)
    return set(found.values_list("pk", flat=True))


def ping_workers() -> None:
    """Ring a wake-up that only asks for a sign of life, the whole way to a worker."""
    rows("SELECT pg_notify(%s, 'ping')", [CHANNEL])
