"""The tree below a session: its sub-agents, their sub-agents, and what each has used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Count, Prefetch, Q

from sessions_app.models import Session, SubagentSpawn, ToolExecution

MAX_NODES = 1_000
MAX_TASK_LENGTH = 2_000


@dataclass(frozen=True, kw_only=True)
class TreeNode:
    """One session below another. A parent is always listed before its children."""

    id: UUID
    parent_id: UUID
    depth: int
    title: str
    agent_name: str
    status: str
    #: The status of the task it was created for. None if it was created without one.
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


def session_tree(session_id: UUID) -> list[TreeNode]:
    """Return every session below this one, in two queries."""
    waiting = Q(executions__state=ToolExecution.State.AWAITING_APPROVAL)
    tasks = SubagentSpawn.objects.filter(kind=SubagentSpawn.Kind.SPAWN)
    sessions = (
        Session.objects.below(session_id)
        .select_related("agent_version")
        .annotate(pending_approvals=Count("executions", filter=waiting))
        .prefetch_related(Prefetch("spawned_by", queryset=tasks, to_attr="tasks"))
        .order_by("pk")[:MAX_NODES]
    )
    return [_node(session, session_id) for session in sessions]


def _node(session: Session, root_id: UUID) -> TreeNode:
    tasks: list[SubagentSpawn] = session.tasks  # type: ignore[attr-defined]
    task = tasks[0] if tasks else None
    return TreeNode(
        id=session.pk,
        parent_id=session.ancestors[-1],
        depth=len(session.ancestors) - session.ancestors.index(root_id),
        title=session.title,
        agent_name=session.agent_version.name,
        status=session.status,
        task_status=task.status if task else None,
        tool_use_id=task.tool_use_id if task else None,
        task=task.task[:MAX_TASK_LENGTH] if task else "",
        input_tokens=session.input_tokens,
        output_tokens=session.output_tokens,
        cost=session.cost,
        created_at=session.created_at,
        finished_at=task.finished_at if task else None,
        delivered_at=task.delivered_at if task else None,
        pending_approvals=session.pending_approvals,  # type: ignore[attr-defined]
    )
