"""What a person may do with a workflow: pause, resume, terminate, restart, send it events."""

from __future__ import annotations

from uuid import UUID

import orjson
from django.db import transaction

from config.faults import Conflict, Invalid, NotFound, WorkflowEnded
from orchestrator import gates
from orchestrator.engine.definition import check_event_type, current
from orchestrator.engine.ringing import ring
from orchestrator.engine.statements import row, rows
from orchestrator.engine.store import dump
from orchestrator.models import Step, Workflow
from sessions_app.models import Run
from sessions_app.sessions import cancel_run
from sessions_app.waiting import OVER

MOST_WAITING = 1_000
MOST_PAYLOAD = 1024 * 1024
STOP = "SELECT workflow_stop(%s, 'terminated', %s::jsonb, %s, NULL)"


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
    workflow: Workflow, author_id: UUID | None, *, from_position: int = 0
) -> None:
    """Agents' runs and children that nobody waits for any more. Each is a commit of its own."""
    steps = Step.objects.filter(workflow=workflow, position__gte=from_position)
    run_ids = [run_id for run_id in steps.values_list("run_id", flat=True) if run_id]
    for run in Run.objects.filter(pk__in=run_ids).exclude(status__in=OVER):
        try:
            cancel_run(run, author_id)
        except Conflict:
            continue  # it ended by itself meanwhile
    kept = Step.objects.filter(
        workflow=workflow, position__lt=from_position, child_id__isnull=False
    )
    children = Workflow.objects.filter(parent=workflow).exclude(
        pk__in=kept.values_list("child_id", flat=True)
    )
    for child in children.exclude(status__in=Workflow.OVER):
        try:
            terminate(child, author_id=author_id)
        except WorkflowEnded:
            continue
