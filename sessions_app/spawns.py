"""Sub-agents: a task given to a session of its own, whose result comes back exactly once.

The child's end is written to its row in the commit that ends its run; the result enters the
parent's log in the commit that marks it delivered. Whoever is killed in between, the supervisor
delivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.limits import Limits
from agents.models import Agent, Environment
from config.faults import SessionEnded, ToolFailed
from sessions_app import lanes
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Session, SessionEvent, SubagentSpawn, ToolExecution
from sessions_app.resuming import result_event, write_and_resume
from sessions_app.sessions import get_or_create_session
from sessions_app.statements import row, rows
from tenants.budgets import set_budget
from tools_app.context import ToolContext

E, Status = SessionEvent.Type, SubagentSpawn.Status
AT_ONCE = 200
LOCK = "SELECT (lane_lock(%s, NULL)).lane_epoch"
COUNTS = """
SELECT count(*) FILTER (WHERE status = 'running'), count(*)
  FROM subagent_spawns WHERE parent_session_id = %s AND kind = 'spawn'
"""
DEPTH = """
WITH RECURSIVE above (id, up, depth) AS (
  SELECT s.id, s.parent_id, 0 FROM agent_sessions s WHERE s.id = %s
  UNION ALL SELECT s.id, s.parent_id, a.depth + 1 FROM agent_sessions s JOIN above a ON s.id = a.up)
SELECT max(depth) FROM above
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
        return known
    parent = Session.objects.get(pk=context.session_id)
    depth = _check_limits(parent, limits)
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
        created_by_id=parent.created_by_id,
    )
    _begin(made, context, text=task.text)
    return made


def _begin(made: SubagentSpawn, context: ToolContext, *, text: str) -> None:
    """Send the task and say in the parent's log that it was given."""
    event = NewEvent(type=E.USER_MESSAGE, payload={"text": text, **_sender(context)})
    accepted = lanes.accept(made.child_session_id, event, author_id=made.created_by_id)
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


def _sender(context: ToolContext) -> dict[str, Any]:
    return {"from_session": str(context.session_id)}


def park(context: ToolContext) -> None:
    """Leave the call open: its result comes from another session."""
    ToolExecution.objects.filter(session_id=context.session_id, tool_use_id=context.call_id).update(
        parked=True
    )


def _check_limits(parent: Session, limits: Limits) -> int:
    """How deep the child will be. Raises what the model can understand when there is no room."""
    depth = int(row(DEPTH, [parent.pk])[0]) + 1
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
    return depth


# ── Delivery ─────────────────────────────────────────────────────────────────────────────────────


@transaction.atomic
def deliver(spawn_id: UUID) -> bool:
    """Write the result into the parent's log, once. False: somebody else did."""
    parent_id = SubagentSpawn.objects.values_list("parent_session_id", flat=True).get(pk=spawn_id)
    row(LOCK, [parent_id])
    done = (
        SubagentSpawn.objects.select_for_update(no_key=True, of=("self",))
        .select_related("parent_session", "child_session")
        .filter(pk=spawn_id, delivered_at=None, finished_at__isnull=False)
        .first()
    )
    if done is None:
        return False
    done.delivered_seq = _hand_over(done)
    done.delivered_at = Now()
    done.save(update_fields=["delivered_at", "delivered_seq"])
    return True


def _hand_over(done: SubagentSpawn) -> int:
    """As the result of the call that waits for it; else as news that wake the parent."""
    parent = done.parent_session
    call = ToolExecution.objects.filter(
        session=parent,
        tool_use_id=done.tool_use_id,
        state=ToolExecution.State.RUNNING,
        parked=True,
    ).first()
    if call is not None:
        _close(call, done)
        seq, _ = write_and_resume(parent, [_idle(done, shown=False), result_event(call)], None)
        return seq
    wakes = done.status != Status.CANCELLED and not done.waits
    event = _idle(done, shown=wakes)
    if wakes:
        try:
            with transaction.atomic():
                return lanes.accept(parent.pk, event, on_busy="collect").seq
        except SessionEnded:
            pass  # Nobody waits for it any more; the log still says what became of it.
    return append_events(parent.pk, [event])


def _idle(done: SubagentSpawn, *, shown: bool) -> NewEvent:
    payload = {
        "child_session_id": str(done.child_session_id),
        "spawn_id": str(done.pk),
        "tool_use_id": done.tool_use_id,
        "title": done.child_session.title,
        "status": done.status,
        "stop_reason": done.stop_reason,
        "result": text_of(done),
        "shown": shown,
    }
    return NewEvent(type=E.CHILD_IDLE, payload=payload, dedupe_key=f"spawn:{done.pk}")


def text_of(done: SubagentSpawn) -> str:
    """What the child answered, or why it did not."""
    if done.status == Status.COMPLETED:
        return str((done.result or {}).get("text", ""))
    if done.error:
        return str(done.error.get("message", ""))
    return f"It ended without an answer: {done.stop_reason or done.status}."


def _close(call: ToolExecution, done: SubagentSpawn) -> None:
    good = done.status == Status.COMPLETED
    call.state = ToolExecution.State.COMPLETED if good else ToolExecution.State.ERROR
    if good:
        call.output = {"session_id": str(done.child_session_id), "result": text_of(done)}
    else:
        call.error = f"The sub-agent {done.status}: {text_of(done)}"
    ToolExecution.objects.filter(pk=call.pk).update(
        state=call.state, output=call.output, error=call.error, finished_at=Now()
    )


def deliver_from(child_id: UUID) -> None:
    """Deliver what the end of this session's run has finished."""
    done = SubagentSpawn.objects.filter(
        child_session_id=child_id, delivered_at=None, finished_at__isnull=False
    )
    for pk in done.values_list("pk", flat=True):
        deliver(pk)


def deliver_left_over() -> int:
    """What nobody has delivered, because the one who should was killed. For the supervisor."""
    to_stop = rows(
        "SELECT child_session_id FROM subagent_spawns WHERE stop_asked AND status = 'running' LIMIT %s",
        [AT_ONCE],
    )
    for (child_id,) in to_stop:
        lanes.stop_child(child_id)
    _expire()
    left = SubagentSpawn.objects.filter(delivered_at=None, finished_at__isnull=False)
    return sum(deliver(pk) for pk in list(left.values_list("pk", flat=True)[:AT_ONCE]))


def _expire() -> None:
    """Stop waiting for replies that did not come in time. Who was asked goes on."""
    error = {"code": "no_reply", "message": "No reply came in time."}
    SubagentSpawn.objects.filter(status=Status.RUNNING, expires_at__lt=Now()).update(
        status=Status.FAILED, stop_reason="no_reply", error=error, finished_at=Now()
    )
