"""The tree below a session: its sub-agents, theirs, and what each has used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sessions_app.statements import rows

MOST_BRANCHES = 1_000
BELOW = """
WITH RECURSIVE below (id, depth) AS (
  SELECT s.id, 1 FROM agent_sessions s WHERE s.parent_id = %s
  UNION ALL SELECT s.id, b.depth + 1 FROM agent_sessions s JOIN below b ON s.parent_id = b.id)
SELECT s.id, s.parent_id, b.depth, s.title, v.name, s.status, w.status, w.tool_use_id, w.task,
       s.input_tokens, s.output_tokens, s.cost, s.created_at, w.finished_at, w.delivered_at,
       (SELECT count(*) FROM tool_executions t
         WHERE t.session_id = s.id AND t.state = 'awaiting_approval')
  FROM below b JOIN agent_sessions s ON s.id = b.id
  JOIN agents_agentversion v ON v.id = s.agent_version_id
  LEFT JOIN subagent_spawns w ON w.child_session_id = s.id AND w.kind = 'spawn'
 ORDER BY s.id LIMIT %s
"""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One session below another. A parent is always listed before its children."""

    id: UUID
    parent_id: UUID
    depth: int
    title: str
    agent_name: str
    status: str
    #: Of the task it was made for; a session that somebody else put there has none.
    task_status: str | None
    tool_use_id: str | None
    task: str
    input_tokens: int
    output_tokens: int
    cost: Decimal
    created_at: datetime
    finished_at: datetime | None
    delivered_at: datetime | None
    pending_approvals: int


def tree_of(session_id: UUID) -> list[Branch]:
    """Everything below this session, in one query."""
    return [
        Branch(
            id=pk,
            parent_id=parent,
            depth=depth,
            title=title,
            agent_name=agent,
            status=status,
            task_status=task_status,
            tool_use_id=call,
            task=(task or "")[:2_000],
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cost=cost,
            created_at=created,
            finished_at=finished,
            delivered_at=delivered,
            pending_approvals=pending,
        )
        for (
            pk, parent, depth, title, agent, status, task_status, call, task,
            tokens_in, tokens_out, cost, created, finished, delivered, pending,
        ) in rows(BELOW, [session_id, MOST_BRANCHES])
    ]  # fmt: skip
