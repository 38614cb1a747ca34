"""What a person may do with a workflow: pause, resume, terminate, restart, send it events."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q

from config.faults import Conflict, Invalid, NotFound, WorkflowEnded
from orchestrator import gates
from orchestrator.engine.definition import check_event_type, current
from orchestrator.engine.links import started_at
from orchestrator.engine.ringing import ring
from orchestrator.engine.settling import WAITS, end_of_turn
from orchestrator.engine.statements import row, rows
from orchestrator.engine.store import dump
from orchestrator.models import Step, Workflow
from sessions_app import lanes
from sessions_app.models import Run
from sessions_app.sessions import cancel_run
from sessions_app.waiting import OVER

MOST_WAITING = 1_000
MOST_PAYLOAD = 1024 * 1024
STOP = "SELECT workflow_stop(%s, 'terminated', %s::jsonb, %s, NULL)"
HALT = "SELECT workflow_stop(%s, 'paused', NULL, 'restarting', NULL)"


def pause(workflow: Workflow) -> None:
    """A step that runs may finish; nothing new begins, and timers stand still."""
    rows("SELECT workflow_pause(%s)", [workflow.pk])
    ring(workflow.pk)


def resume(workflow: Workflow) -> None:
    """Go on. What was left of every timer is what is left of it now."""
    rows("SELECT workflow_resume(%s)", [workflow.pk])
    ring(workflow.pk)


def terminate(workflow: Workflow, *, rollback: bool = False, author_id: UUID | None = None) -> None:
    """End it now, with its children and what its agents do. With `rollback`, what it did is undone."""
    error = {"code": "terminated", "message": "It was terminated."}
    with transaction.atomic():
        if rollback:
            why = dump({"becomes": Workflow.Status.TERMINATED, "error": error})
            (done,) = row("SELECT workflow_stop_undoing(%s, %s::jsonb)", [workflow.pk, why])
        else:
            (done,) = row(STOP, [workflow.pk, dump(error), None])
        if not done:
            raise WorkflowEnded
        gates.close_gates(workflow.pk)
    stop_what_it_started(workflow, author_id)
    ring(workflow.pk)


def restart(
    workflow: Workflow, *, from_step: str = "", nth: int = 1, author_id: UUID | None = None
) -> None:
    """Begin anew: from the beginning with the newest code, or from a step with what came before it."""
    position = 0
    version = workflow.version
    if from_step:
        steps = Step.objects.filter(workflow=workflow).exclude(kind=Step.Kind.ROLLBACK)
        found = steps.filter(name=from_step, nth=nth).first()
        if found is None:
            raise NotFound(f"This workflow has come to no step {from_step!r} (use {nth}).")
        position = found.position
    else:
        version = current(workflow.name).version
    # It must not go on while what it waits for is stopped, nor hear of that stop.
    row(HALT, [workflow.pk])
    stop_what_it_started(workflow, author_id, from_position=position)
    with transaction.atomic():
        gates.close_gates(workflow.pk)
        rows("SELECT workflow_restart(%s, %s, %s)", [workflow.pk, position, version])
    ring(workflow.pk)


def send_event(
    workflow: Workflow, type: str, payload: object, *, author_id: UUID | None = None
) -> int:
    """Put an event into the inbox. One event is for one waiter; one that comes early waits."""
    check_event_type(type)
    try:
        packed = orjson.dumps(payload)
    except TypeError:
        raise Invalid("The payload cannot be written as JSON.") from None
    if len(packed) > MOST_PAYLOAD:
        raise Invalid("The payload of an event has at most 1 MiB.")
    (seq,) = row(
        "SELECT workflow_signal(%s, %s, %s, %s, %s)",
        [workflow.pk, type, packed.decode(), author_id, MOST_WAITING],
    )
    ring(workflow.pk)
    return int(seq)


def stop_what_it_started(
    workflow: Workflow,
    author_id: UUID | None,
    *,
    from_position: int = 0,
    only_awaited: bool = False,
) -> None:
    """Agents' turns and children that nobody waits for any more. Each is a commit of its own.

    Children that were never waited for go on by themselves where only the awaited are meant.
    """
    steps = Step.objects.filter(workflow=workflow, position__gte=from_position)
    children = Workflow.objects.filter(parent=workflow).exclude(status__in=Workflow.OVER)
    if only_awaited:
        steps = steps.filter(status=Step.Status.WAITING)
        children = children.filter(pk__in=steps.filter(child_id__isnull=False).values("child_id"))
    run_ids = steps.filter(run_id__isnull=False).values_list("run_id", flat=True)
    for run in Run.objects.filter(~Q(status__in=OVER) | Q(stop_reason=WAITS), pk__in=list(run_ids)):
        _stop_turn(run, author_id)
    for child in children:
        if started_at(child) >= from_position:
            with suppress(WorkflowEnded):
                terminate(child, author_id=author_id)


def _stop_turn(run: Run, author_id: UUID | None) -> None:
    """Stop what an agent does or waits for since this run, unless that is over."""
    try:
        if run.status not in OVER:
            cancel_run(run, author_id)
        elif end_of_turn(run.pk) is None:
            lanes.stop(run.session_id, note="cancelled", author_id=author_id)
    except Conflict:
        return  # it ended by itself meanwhile
