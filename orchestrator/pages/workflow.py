"""The page of one workflow: its steps, what it waits for, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core.exceptions import Conflict, NotFound
from orchestrator.canvas.run import names_of, title_of
from orchestrator.engine import approvals, lifecycle
from orchestrator.engine.definition import description_of, registry
from orchestrator.engine.lifecycle import find_workflow
from orchestrator.models import Step, StepAttempt, Workflow, WorkflowEvent, attempts_of
from orchestrator.pages.labels import (
    ATTEMPTS,
    KINDS,
    STATUSES,
    STEP_STATUSES,
    ResultPart,
    as_text,
    duration,
    readable,
    subject_of,
)
from orchestrator.tasks import sandbox
from orchestrator.tasks.artifacts import COLLECT, artifacts_of
from tenants.access import Principal
from tenants.authentication import principal_of

#: How many steps and log lines of a long workflow the page shows.
MAX_STEPS, MAX_LINES = 200, 50
#: How many pieces of a command's output are read, and characters shown.
MAX_PIECES, MAX_OUTPUT = 300, 16_000
#: Errors that more credits fix.
UNPAID = {"task_unpaid", "out_of_credits", "budget_reached"}
Status = Workflow.Status


@dataclass(frozen=True, kw_only=True)
class StepLine:
    """One step in the timeline."""

    step: Step
    title: str
    lamp: str
    status: str
    kind: str
    took: str
    #: How a command failed whose step succeeded.
    wrong: str
    output: ResultPart | None
    #: The attempts, if they say more than the step does.
    attempts: list[str]
    child_id: str
    session_id: str


def line_of(step: Step, workflow: Workflow, names: dict[str, str]) -> StepLine:
    lamp, word = STEP_STATUSES[step.status]
    detail = step.detail or {}
    tries = attempts_of(step)
    output = step.output
    if failure := command_failure(output):
        lamp, word = "is-failed", failure
    if workflow.is_over and step.status not in {"complete", "errored"}:
        lamp, word = "is-unknown", "Left open"
    return StepLine(
        step=step,
        title=title_of(step, names),
        lamp=lamp,
        status=word,
        kind=KINDS[step.kind],
        took=duration(step.finished_at - step.started_at) if step.finished_at else "",
        wrong=failure,
        output=None if output is None else readable(output),
        attempts=list(map(describe_attempt, tries))
        if len(tries) > 1 or (tries and tries[0].error)
        else [],
        child_id=str(step.child_id or ""),
        session_id=str(detail.get("session_id", "")),
    )


def describe_attempt(attempt: StepAttempt) -> str:
    said = (attempt.error or {}).get("message", "")
    return f"Attempt {attempt.number}: {ATTEMPTS[attempt.status]}{f', {said}' if said else ''}"


def command_failure(output: Any) -> str:
    """Return how a command failed, if the step ran one that did."""
    if not isinstance(output, dict) or output.get("exit_code", 0) == 0:
        return ""
    ended_by = output.get("ended_by")
    if ended_by == "time":
        return "Took too long"
    return f"Exit code {output['exit_code']}" if ended_by == "itself" else f"Limit on {ended_by}"


@dataclass(frozen=True, kw_only=True)
class PendingApproval:
    """An approval that waits for a person."""

    step: Step
    details: str


def pending_approvals(steps: list[Step], workflow: Workflow) -> list[PendingApproval]:
    """Return the pending approvals; several if branches of a canvas wait at once."""
    asked = [step for step in steps if step.kind == Step.Kind.WAIT_FOR_APPROVAL]
    return [
        PendingApproval(
            step=step,
            details=as_text(detail) if (detail := (step.detail or {}).get("details")) else "",
        )
        for step in asked
        if step.status == Step.Status.WAITING and not workflow.is_over
    ]


@never_cache
@require_safe
def workflow(request: HttpRequest, workflow_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    found = find_workflow(principal, workflow_id)
    template = "run_body" if request.GET.get("part") == "body" else "run"
    context = {**page_context(found), "may_run": principal.may("run")}
    return render(request, f"pages/workflows/{template}.html", context)


def page_context(workflow: Workflow) -> dict[str, Any]:
    """Return the context of the page, in a constant number of queries."""
    newest = Step.objects.filter(workflow=workflow).order_by("-position")[:MAX_STEPS]
    steps = list(reversed(newest.prefetch_related(Prefetch("failures"))))
    said, heard = output_of(workflow)
    names = names_of(workflow)
    lamp, word = STATUSES[workflow.status]
    made = registry.get((workflow.name, workflow.version))
    progress = workflow.progress or {}
    ended = workflow.finished_at or timezone.now()
    reason, _, last_words = (workflow.error or {}).get("message", "").partition("\n")
    failed = next((one for one in reversed(steps) if one.status == Step.Status.ERRORED), None)
    return {
        "workflow": workflow,
        "lamp": lamp,
        "status": "Given up" if workflow.is_dead else word,
        "description": description_of(made) if made else "",
        "lines": [line_of(step, workflow, names) for step in steps],
        "is_cut": bool(steps and steps[0].position > 0),
        "said": said,
        "heard": heard,
        "artifacts": artifacts_of(workflow) if any(s.name == COLLECT for s in steps) else [],
        "progress": progress,
        "percent": 100.0 if workflow.status == Status.COMPLETE else progress.get("percent"),
        "subject": subject_of(workflow, workflow.params),
        "reason": reason,
        # The end of a command's output is shown with all of its output.
        "last_words": "" if heard else last_words,
        "needs_credits": (workflow.error or {}).get("code") in UNPAID,
        "gates": pending_approvals(steps, workflow),
        **result_context(workflow, heard),
        "params": as_text(workflow.params) if workflow.params else "",
        "took": duration(ended - workflow.started_at) if workflow.started_at else "",
        "failed_name": title_of(failed, names) if failed else "",
        "failed_step": failed if workflow.status == Status.ERRORED else None,
        **sandbox_context(workflow, steps),
        "may_pause": not workflow.is_over and workflow.status != Status.PAUSED,
    }


def sandbox_context(workflow: Workflow, steps: list[Step]) -> dict[str, Any]:
    """Return whether the workflow has a sandbox, and until when it is kept."""
    here = sandbox.read(workflow.pk)
    kept = here.keep_until if here and workflow.is_over else 0.0
    return {
        "has_sandbox": here is not None
        or any((one.detail or {}).get("session_id") for one in steps),
        "kept_until": datetime.fromtimestamp(kept, UTC) if kept else None,
    }


def result_context(workflow: Workflow, heard: str) -> dict[str, Any]:
    """Return the answer alone, where there is one, and the whole result."""
    whole = workflow.output
    if whole is None:
        return {"answer": None, "whole": ""}
    answer = whole["output"] if isinstance(whole, dict) and "output" in whole else whole
    is_shown = answer in (None, "") or (heard and answer is not whole)
    return {
        "answer": None if is_shown else readable(answer),
        "whole": "" if isinstance(whole, str) else as_text(whole),
    }


def output_of(workflow: Workflow) -> tuple[list[WorkflowEvent], str]:
    """Return the newest messages, and the end of a command's output, joined."""
    rows = WorkflowEvent.objects.filter(workflow=workflow, type__in=["log", "output"])
    said: list[WorkflowEvent] = []
    pieces: list[str] = []
    for one in rows.order_by("-seq")[:MAX_PIECES]:
        message = one.payload.get("message")
        if isinstance(message, dict) and "stream" in message:
            pieces.append(str(message.get("text", "")))
        elif len(said) < MAX_LINES:
            said.append(one)
    return said[::-1], "".join(reversed(pieces))[-MAX_OUTPUT:]


Action = Callable[[Workflow, Principal, HttpRequest], None]


def _answer(allow: bool) -> Action:
    def action(workflow: Workflow, principal: Principal, request: HttpRequest) -> None:
        note, step = request.POST.get("note", ""), request.POST.get("step", "")
        approvals.answer_approval(workflow, principal, allow=allow, note=note, step=step)

    return action


def _terminate(workflow: Workflow, principal: Principal, request: HttpRequest) -> None:
    rollback = request.POST.get("rollback") == "1"
    lifecycle.terminate(workflow, rollback=rollback, author_id=principal.user_id)


def _restart(workflow: Workflow, principal: Principal, request: HttpRequest) -> None:
    nth = request.POST.get("nth", "1")
    lifecycle.restart(
        workflow,
        from_step=request.POST.get("from_step", ""),
        nth=int(nth) if nth.isascii() and nth.isdigit() and len(nth) < 6 else 1,
        author_id=principal.user_id,
    )


ACTIONS: dict[str, Action] = {
    "approve": _answer(True),
    "reject": _answer(False),
    "pause": lambda workflow, *_: lifecycle.pause(workflow),
    "resume": lambda workflow, *_: lifecycle.resume(workflow),
    "terminate": _terminate,
    "restart": _restart,
}


@require_POST
def workflow_act(request: HttpRequest, workflow_id: UUID, act: str) -> HttpResponse:
    """Do the action and show the workflow, with an error message if it failed."""
    principal = principal_of(request)
    workflow = find_workflow(principal, workflow_id, "run")
    if act not in ACTIONS:
        raise NotFound
    try:
        ACTIONS[act](workflow, principal, request)
    except (Conflict, NotFound) as fault:
        messages.error(request, fault.detail)
    return redirect("workflow", workflow_id)
