"""Sub-agents: a task given to a session of its own, within bounds. `handover` brings the result."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from agents.definitions import version_by_id
from agents.limits import Limits, limits_of
from agents.models import Agent, Environment
from config.faults import ToolFailed
from sessions_app import lanes
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Session, SessionEvent, SubagentSpawn, ToolExecution
from sessions_app.sessions import get_or_create_session
from sessions_app.statements import row, rows
from tenants.budgets import set_budget
from tenants.spending import check_purses
from tools_app.context import ToolContext

E, Status = SessionEvent.Type, SubagentSpawn.Status
#: How far messages between sessions have come in the turn of a run, and whose key pays for it.
ORIGIN = """
SELECT turn_hops(q.id), (SELECT r.key_id FROM agent_run_queue r WHERE r.id = turn_root(q.id))
  FROM agent_run_queue q WHERE q.id = %s
"""
COUNTS = """
SELECT count(*) FILTER (WHERE status = 'running'), count(*)
  FROM subagent_spawns WHERE parent_session_id = %s AND kind = 'spawn'
"""
#: The session that nobody gave a task, and how far above it is.
ROOT = """
WITH RECURSIVE above (id, up, depth) AS (
  SELECT s.id, s.parent_id, 0 FROM agent_sessions s WHERE s.id = %s
  UNION ALL SELECT s.id, s.parent_id, a.depth + 1 FROM agent_sessions s JOIN above a ON s.id = a.up)
SELECT id, depth FROM above ORDER BY depth DESC LIMIT 1
"""
BELOW = """
WITH RECURSIVE below (id) AS (
  SELECT s.id FROM agent_sessions s WHERE s.parent_id = %s
  UNION ALL SELECT s.id FROM agent_sessions s JOIN below b ON s.parent_id = b.id)
SELECT count(*) FROM below
"""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a child is asked to do, and with what."""

    text: str
    agent: Agent
    environment: Environment | None = None
    title: str = ""
    budget: Decimal | None = None
    waits: bool = True


@transaction.atomic
def spawn(context: ToolContext, task: Task, limits: Limits) -> SubagentSpawn:
    """Give a task to a new child of the calling session, within the bounds of its agent."""
    context.fence()
    if known := SubagentSpawn.objects.filter(
        parent_session_id=context.session_id, tool_use_id=context.call_id
    ).first():
        if known.waits:
            park(context)
        return known
    parent = Session.objects.get(pk=context.session_id)
    depth = _check_limits(parent, limits)
    check_purses(parent.workspace_id, [task.agent.pk, parent.pk])
    child, _ = get_or_create_session(
        agent=task.agent,
        environment=task.environment,
        title=(task.title or task.text)[:80],
        metadata={"spawned_by": str(parent.pk)},
        created_by_id=parent.created_by_id,
        parent=parent,
    )
    if task.budget is not None:
        set_budget(
            workspace_id=parent.workspace_id,
            kind="session",
            owner_id=child.pk,
            ceiling=task.budget,
        )
    made = SubagentSpawn.objects.create(
        workspace_id=parent.workspace_id,
        parent_session=parent,
        child_session=child,
        parent_run_id=context.run_id,
        tool_use_id=context.call_id,
        task=task.text,
        depth=depth,
        waits=task.waits,
        created_by_id=context.user_id,
    )
    _begin(made, context, text=task.text)
    return made


def _begin(made: SubagentSpawn, context: ToolContext, *, text: str) -> None:
    """Send the task and say in the parent's log that it was given."""
    event = message_from(context, text)
    accepted = lanes.accept(made.child_session_id, event, author_id=context.user_id)
    made.child_run_id = accepted.run_id
    made.save(update_fields=["child_run_id"])
    created = NewEvent(
        type=E.CHILD_CREATED,
        payload={
            "child_session_id": str(made.child_session_id),
            "spawn_id": str(made.pk),
            "tool_use_id": made.tool_use_id,
            "title": made.child_session.title,
            "agent_id": str(made.child_session.agent_id),
            "task": text[:2_000],
            "waits": made.waits,
        },
    )
    append_events(context.session_id, [created], run_id=context.run_id)
    if made.waits:
        park(context)


def message_from(
    context: ToolContext, text: str, *, hops: int = 0, dedupe_key: str | None = None
) -> NewEvent:
    """What one session says to another. It goes `hops` further, and whoever began it pays."""
    gone, key_id = origin_of(context.run_id)
    payload = {"text": text, "from_session": str(context.session_id), "hops": gone + hops}
    return NewEvent(type=E.USER_MESSAGE, payload=payload, dedupe_key=dedupe_key, key_id=key_id)


def origin_of(run_id: UUID | None) -> tuple[int, UUID | None]:
    """How many hops led to the turn of this run, and with which key it was begun."""
    found = rows(ORIGIN, [run_id])
    return found[0] if found else (0, None)


def park(context: ToolContext) -> None:
    """Leave the call open: its result comes from another session."""
    ToolExecution.objects.filter(session_id=context.session_id, tool_use_id=context.call_id).update(
        parked=True
    )


def _check_limits(parent: Session, limits: Limits) -> int:
    """How deep the child will be. Raises what the model can understand when there is no room."""
    root_id, above = row(ROOT, [parent.pk])
    depth = above + 1
    at_once, ever = row(COUNTS, [parent.pk])
    if depth > limits.max_depth:
        raise ToolFailed(f"Sub-agents go {limits.max_depth} deep here; this one would be deeper.")
    if at_once >= limits.max_children:
        raise ToolFailed(
            f"{at_once} sub-agents are at work, and no more than {limits.max_children} may be. "
            "Wait for one to finish."
        )
    if ever >= limits.max_children_total:
        raise ToolFailed(f"This session has had all of its {limits.max_children_total} sub-agents.")
    _check_tree(root_id)
    return depth


def _check_tree(root_id: UUID) -> None:
    """The session at the top bounds all that comes below it, also where nothing costs anything."""
    # Of two that spawn at once in one tree, the second counts the child of the first.
    rows("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"tree:{root_id}"])
    version_id = Session.objects.values_list("agent_version_id", flat=True).get(pk=root_id)
    most = limits_of(version_by_id(version_id)).max_children_total
    if row(BELOW, [root_id])[0] >= most:
        raise ToolFailed(
            f"The session at the top of this one has had all of its {most} sub-agents, with those "
            "that they made."
        )
