"""Gives a step that waits for an agent or for another workflow its end, when that is over."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from orchestrator.engine import store
from orchestrator.engine.store import Body
from orchestrator.models import Step, Workflow
from sessions_app.models import Run, Session
from sessions_app.waiting import OVER

#: How a run ends that leaves its turn to a person or a program; another run goes on with it.
WAITS = "requires_action"


def settle_run(run_id: UUID) -> UUID | None:
    """Give the step that waits for the turn of this run its end, if the turn is over."""
    step = Step.objects.filter(run_id=run_id, status=Step.Status.WAITING).first()
    run = end_of_turn(run_id) if step else None
    if step is None or run is None:
        return None
    if run.status == Run.Status.COMPLETED and run.stop_reason != WAITS:
        facts = {"session_id": str(run.session_id), "run_id": str(run.pk), "usage": run.usage}
        result = {
            "text": (run.result or {}).get("text", ""),
            "stop_reason": run.stop_reason,
            **facts,
        }
        done = store.settle(step.workflow_id, step.position, "complete", result=result)
    else:
        done = store.settle(step.workflow_id, step.position, "errored", error=_fault_of(run))
    return step.workflow_id if done else None


def _fault_of(run: Run) -> Body:
    """Why a turn gave no answer. One that was stopped while it waited has no run that says so."""
    if run.stop_reason == WAITS:
        said = "The agent was stopped while it waited for somebody."
        return {"code": f"run_{Run.Status.CANCELLED}", "message": said}
    said = (run.error or {}).get("message") or run.stop_reason or "no reason was given"
    return {"code": f"run_{run.status}", "message": f"The agent's run is {run.status}: {said}"}


def end_of_turn(run_id: UUID) -> Run | None:
    """The run that ended the turn which this one began, or none while the turn goes on.

    One that waits is the last of its turn only when the session has gone on without it.
    """
    first = Run.objects.select_related("session").filter(pk=run_id).first()
    if first is None or first.status not in OVER:
        return None
    if first.stop_reason != WAITS or first.started_at is None:
        return first
    # As the session was before its runs are read: whatever goes on with the turn later is seen.
    is_left = first.session.status in {Session.Status.IDLE, Session.Status.TERMINATED}
    following = _next_turn(first, first.started_at)
    resumed = list(_resumed(first, first.started_at, following))
    if ended := next((run for run in resumed if _has_ended(run)), None):
        return ended
    if all(run.status in OVER for run in resumed) and (is_left or following):
        return resumed[-1] if resumed else first
    return None


def _has_ended(run: Run) -> bool:
    return run.status in OVER and run.stop_reason != WAITS


def _next_turn(first: Run, began: datetime) -> datetime | None:
    """When the session came to the next turn, which it does only after this one."""
    turns = Run.objects.filter(session_id=first.session_id, resumes=False, purpose=first.purpose)
    later = turns.filter(started_at__gt=began).order_by("started_at")
    return later.values_list("started_at", flat=True).first()


def _resumed(first: Run, began: datetime, until: datetime | None) -> QuerySet[Run]:
    """The runs that went on with the turn. Another turn's may have been queued before it began."""
    runs = Run.objects.filter(session_id=first.session_id, resumes=True, created_at__gt=began)
    if until:
        runs = runs.filter(created_at__lt=until)
    return runs.order_by("created_at")


def settle_child(child_id: UUID) -> UUID | None:
    """Give the step that waits for this workflow its end, if the workflow is over."""
    step = Step.objects.filter(child_id=child_id, status=Step.Status.WAITING).first()
    child = Workflow.objects.over().filter(pk=child_id).first() if step else None
    if step is None or child is None:
        return None
    if child.status == Workflow.Status.COMPLETE:
        done = store.settle(step.workflow_id, step.position, "complete", result=child.output)
    else:
        said = (child.error or {}).get("message", "")
        error = {
            "code": f"child_{child.status}",
            "message": f"The workflow {child.name} is {child.status}. {said}".strip(),
        }
        done = store.settle(step.workflow_id, step.position, "errored", error=error)
    return step.workflow_id if done else None
