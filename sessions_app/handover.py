"""Hands what a sub-agent or a neighbour answered over to the session that asked, exactly once.

The child's end is written to its row in the commit that ends its run; the result enters the
parent's log in the commit that marks it delivered. Whoever is killed in between, the supervisor
delivers.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from config.faults import SessionEnded
from sessions_app import lanes
from sessions_app.log import NewEvent, append_events
from sessions_app.models import SessionEvent, SubagentSpawn, ToolExecution
from sessions_app.resuming import result_event, write_and_resume
from sessions_app.row_by_row import for_each
from sessions_app.spawns import origin_of
from sessions_app.statements import hold_lane, rows

E, Status = SessionEvent.Type, SubagentSpawn.Status
AT_ONCE = 200


@transaction.atomic
def deliver(spawn_id: UUID) -> bool:
    """Write the result into the parent's log, once. False: somebody else did."""
    parent_id = SubagentSpawn.objects.values_list("parent_session_id", flat=True).get(pk=spawn_id)
    hold_lane(parent_id)
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
        author_id = done.created_by_id
        try:
            with transaction.atomic():
                return lanes.accept(parent.pk, event, author_id=author_id, on_busy="collect").seq
        except SessionEnded:
            pass  # Nobody waits for it any more; the log still says what became of it.
    return append_events(parent.pk, [event])


def _idle(done: SubagentSpawn, *, shown: bool) -> NewEvent:
    # News wake the parent on account of the turn that gave the task, not as something new.
    hops, key_id = origin_of(done.parent_run_id)
    payload = {
        "child_session_id": str(done.child_session_id),
        "spawn_id": str(done.pk),
        "tool_use_id": done.tool_use_id,
        "title": done.child_session.title,
        "status": done.status,
        "stop_reason": done.stop_reason,
        "result": text_of(done),
        "shown": shown,
        "hops": hops,
    }
    return NewEvent(
        type=E.CHILD_IDLE, payload=payload, dedupe_key=f"spawn:{done.pk}", key_id=key_id
    )


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
    for_each([child_id for (child_id,) in to_stop], lanes.stop_child)
    _expire()
    left = SubagentSpawn.objects.filter(delivered_at=None, finished_at__isnull=False)
    return len(for_each(list(left.values_list("pk", flat=True)[:AT_ONCE]), deliver))


def _expire() -> None:
    """Stop waiting for replies that did not come in time. Who was asked goes on."""
    error = {"code": "no_reply", "message": "No reply came in time."}
    SubagentSpawn.objects.filter(status=Status.RUNNING, expires_at__lt=Now()).update(
        status=Status.FAILED, stop_reason="no_reply", error=error, finished_at=Now()
    )
