"""Sub-agents: gives a task to a child session within limits, delivers its result once, and lists them.

The child's end is written to its row in the commit that ends its run. The result enters the
parent's log in the commit that marks it delivered. If the process dies in between, the supervisor
delivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Prefetch, Q
from django.db.models.functions import Now

from agents.definitions import version_by_id
from agents.environments import default_environment, environment_or_default, excess
from agents.limits import Limits, limits_of
from agents.models import Agent, Environment
from core.db import for_each
from sessions_app.approvals.tool_calls import result_event, write_and_resume
from sessions_app.exceptions import SessionEnded
from sessions_app.lanes import run_queue
from sessions_app.log.sql import lock_lane, row, rows
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent, SubagentSpawn, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import set_budget
from tenants.billing.spending import check_purses
from tools_app.exceptions import ToolFailed
from tools_app.registry import ToolContext

EventType, Status = SessionEvent.Type, SubagentSpawn.Status
#: The hops of messages between sessions that led to a run's turn, and the key that pays for it.
TURN_ORIGIN = """
SELECT turn_hops(q.id), (SELECT r.key_id FROM agent_run_queue r WHERE r.id = turn_root(q.id))
  FROM agent_run_queue q WHERE q.id = %s
"""
COUNT_SPAWNS = """
SELECT count(*) FILTER (WHERE status = 'running'), count(*)
  FROM subagent_spawns WHERE parent_session_id = %s AND kind = 'spawn'
"""
MAX_PER_SWEEP = 200
#: Told to the parent after an answer that reached its token limit.
CUT_OFF = "(The answer ends here because it reached its token limit.)"
#: The size of a tree that is listed, and of each task in it.
MAX_NODES, MAX_TASK_LENGTH = 1_000, 2_000


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
    """Give a task to a new child of the calling session, within the limits of its agent.

    A repeated call after a crash finds the child that it made before.
    """
    context.fence()
    if known := SubagentSpawn.objects.filter(
        parent_session_id=context.session_id, tool_use_id=context.call_id
    ).first():
        if known.waits:
            park_call(context)
        return known
    parent = Session.objects.get(pk=context.session_id)
    depth = _check_limits(parent, limits)
    check_purses(parent.workspace_id, [task.agent.pk, parent.pk])
    child, _ = get_or_create_session(
        agent=task.agent,
        environment=_environment(parent, task),
        title=(task.title or task.text)[:80],
        metadata={"spawned_by": str(parent.pk)},
        created_by_id=parent.created_by_id,
        parent=parent,
    )
    if task.budget is not None:
        set_budget(
            workspace_id=parent.workspace_id, kind="session", owner_id=child.pk, ceiling=task.budget
        )
    spawn_row = SubagentSpawn.objects.create(
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
    _start(spawn_row, context, text=task.text)
    return spawn_row


def _environment(parent: Session, task: Task) -> Environment | None:
    """Return the environment of the child, which allows no more than the parent's.

    An agent whose own environment allows more works in the parent's. Raise ToolFailed if the task
    names an environment that allows more.
    """
    own = task.agent.current.environment_id if task.agent.current else None
    within = environment_or_default(parent.workspace_id, parent.environment_id)
    chosen = task.environment or environment_or_default(parent.workspace_id, own)
    more = excess(chosen, within)
    if more and task.environment:
        raise ToolFailed(
            f"A sub-agent cannot work in the environment {chosen.name!r}: compared with yours, "
            f"{within.name!r}, {more}. Leave the environment out, or choose a narrower one."
        )
    if more:
        return parent.environment or default_environment(parent.workspace_id)
    return task.environment


def _start(spawn_row: SubagentSpawn, context: ToolContext, *, text: str) -> None:
    """Send the task to the child and record it in the parent's log."""
    event = peer_message(context, text)
    accepted = run_queue.accept(spawn_row.child_session_id, event, author_id=context.user_id)
    spawn_row.child_run_id = accepted.run_id
    spawn_row.save(update_fields=["child_run_id"])
    created = NewEvent(
        type=EventType.CHILD_CREATED,
        payload={
            "child_session_id": str(spawn_row.child_session_id),
            "spawn_id": str(spawn_row.pk),
            "tool_use_id": spawn_row.tool_use_id,
            "title": spawn_row.child_session.title,
            "agent_id": str(spawn_row.child_session.agent_id),
            "task": text[:MAX_TASK_LENGTH],
            "waits": spawn_row.waits,
        },
    )
    append_events(context.session_id, [created], run_id=context.run_id)
    if spawn_row.waits:
        park_call(context)


def peer_message(
    context: ToolContext, text: str, *, hops: int = 0, dedupe_key: str | None = None
) -> NewEvent:
    """Return the message of one session to another. The sender of the first message pays."""
    earlier, key_id = turn_origin(context.run_id)
    payload = {"text": text, "from_session": str(context.session_id), "hops": earlier + hops}
    return NewEvent(
        type=EventType.USER_MESSAGE, payload=payload, dedupe_key=dedupe_key, key_id=key_id
    )


def turn_origin(run_id: UUID | None) -> tuple[int, UUID | None]:
    """Return how many hops led to the turn of this run, and the key that it was started with."""
    found = rows(TURN_ORIGIN, [run_id])
    return found[0] if found else (0, None)


def park_call(context: ToolContext) -> None:
    """Leave the call open, because its result comes from another session."""
    ToolExecution.objects.filter(session_id=context.session_id, tool_use_id=context.call_id).update(
        parked=True
    )


def _check_limits(parent: Session, limits: Limits) -> int:
    """Return the depth of the child. Raise ToolFailed, with a text for the model, if a limit is
    reached.
    """
    depth = len(parent.ancestors) + 1
    at_once, ever = row(COUNT_SPAWNS, [parent.pk])
    if depth > limits.max_depth:
        raise ToolFailed(
            f"Sub-agents may be {limits.max_depth} levels deep, and this one would be deeper."
        )
    if at_once >= limits.max_children:
        raise ToolFailed(
            f"{at_once} sub-agents are running, which is the limit ({limits.max_children}). "
            "Wait for one to finish."
        )
    if ever >= limits.max_children_total:
        raise ToolFailed(f"This session has had all of its {limits.max_children_total} sub-agents.")
    _check_tree(parent.ancestors[0] if parent.ancestors else parent.pk)
    return depth


def _check_tree(root_id: UUID) -> None:
    """Check the limit that the session at the root sets for all sessions below it."""
    # Serialises spawns in one tree, so that the second counts the child of the first.
    rows("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"tree:{root_id}"])
    version_id = Session.objects.values_list("agent_version_id", flat=True).get(pk=root_id)
    most = limits_of(version_by_id(version_id)).max_children_total
    if Session.objects.below(root_id).count() >= most:
        raise ToolFailed(
            f"The session at the top of this one has had all of its {most} sub-agents, with those "
            "that they started."
        )


@transaction.atomic
def deliver(spawn_id: UUID) -> bool:
    """Write the result into the parent's log, once. Return False if it was already delivered."""
    parent_id = SubagentSpawn.objects.values_list("parent_session_id", flat=True).get(pk=spawn_id)
    lock_lane(parent_id)
    spawn_row = (
        SubagentSpawn.objects.select_for_update(no_key=True, of=("self",))
        .select_related("parent_session", "child_session")
        .filter(pk=spawn_id, delivered_at=None, finished_at__isnull=False)
        .first()
    )
    if spawn_row is None:
        return False
    spawn_row.delivered_seq = _deliver_to_parent(spawn_row)
    spawn_row.delivered_at = Now()
    spawn_row.save(update_fields=["delivered_at", "delivered_seq"])
    return True


def _deliver_to_parent(spawn_row: SubagentSpawn) -> int:
    """Deliver as the result of the call that waits, or else as a message that wakes the parent."""
    parent = spawn_row.parent_session
    call = ToolExecution.objects.filter(
        session=parent,
        tool_use_id=spawn_row.tool_use_id,
        state=ToolExecution.State.RUNNING,
        parked=True,
    ).first()
    if call is not None:
        _close_call(call, spawn_row)
        seq, _ = write_and_resume(
            parent, [_idle_event(spawn_row, shown=False), result_event(call)], None
        )
        return seq
    wakes = spawn_row.status != Status.CANCELLED and not spawn_row.waits
    event = _idle_event(spawn_row, shown=wakes)
    if wakes:
        author_id = spawn_row.created_by_id
        try:
            with transaction.atomic():
                return run_queue.accept(
                    parent.pk, event, author_id=author_id, on_busy="collect"
                ).seq
        except SessionEnded:
            pass  # The parent has ended. Its log still records the result.
    return append_events(parent.pk, [event])


def _idle_event(spawn_row: SubagentSpawn, *, shown: bool) -> NewEvent:
    # The parent continues the turn that gave the task, with its hops and its key.
    hops, key_id = turn_origin(spawn_row.parent_run_id)
    payload = {
        "child_session_id": str(spawn_row.child_session_id),
        "spawn_id": str(spawn_row.pk),
        "tool_use_id": spawn_row.tool_use_id,
        "title": spawn_row.child_session.title,
        "status": spawn_row.status,
        "stop_reason": spawn_row.stop_reason,
        "result": result_text(spawn_row),
        "shown": shown,
        "hops": hops,
    }
    return NewEvent(
        type=EventType.CHILD_IDLE,
        payload=payload,
        dedupe_key=f"spawn:{spawn_row.pk}",
        key_id=key_id,
    )


def result_text(spawn_row: SubagentSpawn) -> str:
    """Return the child's answer, or why there is none."""
    if spawn_row.status == Status.COMPLETED:
        text = str((spawn_row.result or {}).get("text", ""))
        return f"{text}\n\n{CUT_OFF}" if spawn_row.stop_reason == "max_tokens" else text
    if spawn_row.error:
        return str(spawn_row.error.get("message", ""))
    return f"It ended without an answer: {spawn_row.stop_reason or spawn_row.status}."


def _close_call(call: ToolExecution, spawn_row: SubagentSpawn) -> None:
    completed = spawn_row.status == Status.COMPLETED
    call.state = ToolExecution.State.COMPLETED if completed else ToolExecution.State.ERROR
    if completed:
        call.output = {
            "session_id": str(spawn_row.child_session_id),
            "result": result_text(spawn_row),
        }
    else:
        call.error = f"The sub-agent {spawn_row.status}: {result_text(spawn_row)}"
    ToolExecution.objects.filter(pk=call.pk).update(
        state=call.state, output=call.output, error=call.error, finished_at=Now()
    )


def deliver_results_of(child_id: UUID) -> None:
    """Deliver what the end of this session's run has finished."""
    spawn_row = SubagentSpawn.objects.filter(
        child_session_id=child_id, delivered_at=None, finished_at__isnull=False
    )
    for pk in spawn_row.values_list("pk", flat=True):
        deliver(pk)


def deliver_pending() -> int:
    """Finish stops and deliveries that a killed process left behind. Return the number of
    deliveries.
    """
    to_stop = rows(
        "SELECT child_session_id FROM subagent_spawns WHERE stop_asked AND status = 'running' LIMIT %s",
        [MAX_PER_SWEEP],
    )
    for_each([child_id for (child_id,) in to_stop], run_queue.stop_child)
    _expire_replies()
    left = SubagentSpawn.objects.filter(delivered_at=None, finished_at__isnull=False)
    return len(for_each(list(left.values_list("pk", flat=True)[:MAX_PER_SWEEP]), deliver))


def _expire_replies() -> None:
    """Stop waiting for replies that did not come in time. The other session goes on."""
    error = {"code": "no_reply", "message": "No reply came in time."}
    SubagentSpawn.objects.filter(status=Status.RUNNING, expires_at__lt=Now()).update(
        status=Status.FAILED, stop_reason="no_reply", error=error, finished_at=Now()
    )


# ── The tree ─────────────────────────────────────────────────────────────────────────────────────


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
