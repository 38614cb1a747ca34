"""The page of one workflow: its steps, what it waits for, and its result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core.exceptions import Conflict, NotFound
from orchestrator.canvas.node_states import names_of, title_of
from orchestrator.engine import approvals, lifecycle
from orchestrator.engine.lifecycle import find_workflow
from orchestrator.models import Step, StepAttempt, Workflow, WorkflowEvent, attempts_of
from orchestrator.pages import labels
from orchestrator.pages.labels import as_text, duration, readable, summary_of
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


def line_of(step: Step, workflow: Workflow, names: dict[str, str]) -> dict[str, Any]:
    """Return what the timeline shows of one step."""
    lamp, label = labels.STEP_STATUSES[step.status]
    output = step.output
    if failure := command_failure(output):
        lamp, label = "is-failed", failure
    if workflow.is_over and step.status not in {"complete", "errored"}:
        lamp, label = "is-unknown", "Left open"
    return {
        "step": step,
        "title": title_of(step, names),
        "lamp": lamp,
        "status": label,
        "kind": labels.KINDS[step.kind],
        "duration": duration(step.finished_at - step.started_at) if step.finished_at else "",
        "failure": failure,
        "output": None if output is None else readable(output),
        "attempts": describe_attempts(step),
        "session_id": (step.detail or {}).get("session_id", ""),
    }


def describe_attempts(step: Step) -> list[str]:
    """Return a line per attempt, if the attempts say more than the step does."""
    attempts = attempts_of(step)
    if len(attempts) == 1 and not attempts[0].error:
        return []
    return [_describe_attempt(attempt) for attempt in attempts]


def _describe_attempt(attempt: StepAttempt) -> str:
    message = (attempt.error or {}).get("message", "")
    outcome = labels.ATTEMPTS[attempt.status]
    return f"Attempt {attempt.number}: {outcome}" + (f", {message}" if message else "")


def command_failure(output: Any) -> str:
    """Return how a command failed, if the step ran one that did."""
    if not isinstance(output, dict) or output.get("exit_code", 0) == 0:
        return ""
    ended_by = output.get("ended_by")
    if ended_by == "time":
        return "Took too long"
    return f"Exit code {output['exit_code']}" if ended_by == "itself" else f"Limit on {ended_by}"


def pending_approvals(steps: list[Step]) -> list[dict[str, Any]]:
    """Return the steps that wait for a person; several if branches of a canvas wait at once."""
    return [
        {"step": step, "details": as_text(details) if details else ""}
        for step in steps
        if step.kind == Step.Kind.WAIT_FOR_APPROVAL and step.status == Step.Status.WAITING
        for details in [(step.detail or {}).get("details")]
    ]


@never_cache
@require_safe
def workflow(request: HttpRequest, workflow_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    found = find_workflow(principal, workflow_id)
    template = "workflow_body" if request.GET.get("part") == "body" else "workflow"
    context = {**page_context(found), "may_run": principal.may("run")}
    return render(request, f"pages/workflows/{template}.html", context)


def page_context(workflow: Workflow) -> dict[str, Any]:
    """Return the context of the page, in a constant number of queries."""
    newest = Step.objects.filter(workflow=workflow).order_by("-position")[:MAX_STEPS]
    steps = list(reversed(newest.prefetch_related("failures")))
    log_lines, command_output = output_of(workflow)
    names = names_of(workflow)
    error = workflow.error or {}
    reason, _, output_tail = error.get("message", "").partition("\n")
    failed = next((one for one in reversed(steps) if one.status == Step.Status.ERRORED), None)
    return {
        **summary_of(workflow, workflow.params),
        "lines": [line_of(step, workflow, names) for step in steps],
        "is_truncated": bool(steps and steps[0].position > 0),
        "log_lines": log_lines,
        "command_output": command_output,
        "artifacts": artifacts_of(workflow) if any(s.name == COLLECT for s in steps) else [],
        "progress": workflow.progress or {},
        "reason": reason,
        # The end of a command's output is shown with all of its output.
        "output_tail": "" if command_output else output_tail,
        "needs_credits": error.get("code") in UNPAID,
        "approvals": [] if workflow.is_over else pending_approvals(steps),
        **result_context(workflow, command_output),
        "params": as_text(workflow.params) if workflow.params else "",
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


def result_context(workflow: Workflow, command_output: str) -> dict[str, Any]:
    """Return the result for people, unless it is the output shown above, and the whole as JSON."""
    whole = workflow.output
    if whole is None:
        return {"result": None, "result_json": ""}
    answer = whole["output"] if isinstance(whole, dict) and "output" in whole else whole
    is_shown = answer in (None, "") or (command_output and answer is not whole)
    return {
        "result": None if is_shown else readable(answer),
        "result_json": "" if isinstance(whole, str) else as_text(whole),
    }


def output_of(workflow: Workflow) -> tuple[list[WorkflowEvent], str]:
    """Return the newest messages of the log, and the end of a command's output, joined."""
    rows = WorkflowEvent.objects.filter(workflow=workflow, type__in=["log", "output"])
    log_lines: list[WorkflowEvent] = []
    pieces: list[str] = []
    for event in rows.order_by("-seq")[:MAX_PIECES]:
        message = event.payload.get("message")
        if isinstance(message, dict) and "stream" in message:
            pieces.append(str(message.get("text", "")))
        elif len(log_lines) < MAX_LINES:
            log_lines.append(event)
    return log_lines[::-1], "".join(reversed(pieces))[-MAX_OUTPUT:]


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
