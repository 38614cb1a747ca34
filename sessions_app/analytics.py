"""Statistics of tool calls in a workspace: counts by result, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from sessions_app.log.sql import rows

BY_TOOL = """
SELECT name, count(*), count(*) FILTER (WHERE state = 'completed'),
       count(*) FILTER (WHERE state = 'error'), count(*) FILTER (WHERE state = 'denied'),
       count(*) FILTER (WHERE state = 'cancelled'), count(*) FILTER (WHERE state = 'unknown'),
       count(*) FILTER (WHERE decision = 'ask'),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.95) WITHIN GROUP (ORDER BY ms)
  FROM (SELECT *, extract(epoch FROM finished_at - started_at) * 1000 AS ms FROM tool_executions
         WHERE workspace_id = %s AND created_at >= %s AND created_at < %s) t
 GROUP BY name ORDER BY count(*) DESC, name LIMIT 500
"""


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """The calls of one tool in a period. Durations are milliseconds, or None if it never ran."""

    name: str
    calls: int
    completed: int
    failed: int
    denied: int
    cancelled: int
    unknown: int
    asked: int
    p50_ms: float | None
    p95_ms: float | None


def tool_use(workspace_id: UUID, days: int) -> list[ToolUse]:
    """Return every tool that was called in the last days, the busiest first."""
    now = timezone.now()
    return tool_use_between(workspace_id, now - timedelta(days=days), now)


def tool_use_between(workspace_id: UUID, begin: datetime, end: datetime) -> list[ToolUse]:
    """Return every tool that was called between two times, the busiest first."""
    return [
        ToolUse(
            name=name,
            calls=calls,
            completed=completed,
            failed=failed,
            denied=denied,
            cancelled=cancelled,
            unknown=unknown,
            asked=asked,
            p50_ms=p50,
            p95_ms=p95,
        )
        for name, calls, completed, failed, denied, cancelled, unknown, asked, p50, p95 in rows(
            BY_TOOL, [workspace_id, begin, end]
        )
    ]
