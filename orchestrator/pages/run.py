"""One workflow as it runs: its steps down a line, what it waits for, what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from orchestrator.canvas.nodes import names_of, title_of
from orchestrator.engine.attempts import Attempt, attempts_of
from orchestrator.engine.definition import description_of, registry
from orchestrator.engine.starting import find_workflow
from orchestrator.models import Step, Workflow, WorkflowEvent
from orchestrator.pages.readable import Part, readable
from orchestrator.pages.subject import subject_of
from orchestrator.pages.words import ATTEMPTS, KINDS, STATUSES, STEP_STATUSES, shown, span
from orchestrator.taskagent import place
from orchestrator.taskagent.artifacts import COLLECT, artifacts_of
from tenants.authentication import principal_of

#: What a page shows of a long workflow: its newest steps and lines.
MOST_STEPS, MOST_LINES = 200, 50
#: Of what a command says, which comes in many pieces.
MOST_PIECES, HEARD = 300, 16_000
#: Failures that money mends.
UNPAID = {"task_unpaid", "out_of_credits", "budget_reached"}
Status = Workflow.Status


@dataclass(frozen=True, kw_only=True)
class Line:
    """One step, as the timeline shows it."""

    step: Step
    title: str
    lamp: str
    status: str
    kind: str
    took: str
    #: How a command failed whose step did its part.
    wrong: str
    output: Part | None
    #: What each attempt came to, where that says more than the step does.
    attempts: list[str]
    child_id: str
    session_id: str


def line_of(step: Step, workflow: Workflow, names: dict[str, str]) -> Line:
    lamp, word = STEP_STATUSES[step.status]
    detail = step.detail or {}
    tries = attempts_of(step)
    output = step.output
    if wrong := wrong_with(output):
        lamp, word = "is-failed", wrong
    if workflow.is_over and step.status not in {"complete", "errored"}:
        lamp, word = "is-unknown", "Left open"
    return Line(
        step=step,
        title=title_of(step, names),
        lamp=lamp,
        status=word,
        kind=KINDS[step.kind],
        took=span(step.finished_at - step.started_at) if step.finished_at else "",
        wrong=wrong,
        output=None if output is None else readable(output),
        attempts=list(map(went, tries)) if len(tries) > 1 or (tries and tries[0].error) else [],
        child_id=str(step.child_id or ""),
        session_id=str(detail.get("session_id", "")),
    )


def went(attempt: Attempt) -> str:
    said = (attempt.error or {}).get("message", "")
    return f"Attempt {attempt.number}: {ATTEMPTS[attempt.status]}{f', {said}' if said else ''}"


def wrong_with(output: Any) -> str:
    """Of a step that ran a command: how it failed, if it did."""
    if not isinstance(output, dict) or output.get("exit_code", 0) == 0:
        return ""
    ended_by = output.get("ended_by")
    if ended_by == "time":
        return "Took too long"
    return f"Exit code {output['exit_code']}" if ended_by == "itself" else f"Limit on {ended_by}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A question that waits for a person."""

    step: Step
    details: str


def gates_of(steps: list[Step], workflow: Workflow) -> list[Gate]:
    """Several when branches of a canvas ask at the same time."""
    asked = [step for step in steps if step.kind == Step.Kind.WAIT_FOR_APPROVAL]
    return [
        Gate(
            step=step,
            details=shown(detail) if (detail := (step.detail or {}).get("details")) else "",
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
    context = {**told(found), "may_run": principal.may("run")}
    return render(request, f"pages/workflows/{template}.html", context)


def told(workflow: Workflow) -> dict[str, Any]:
    """Everything that the page says of one workflow, in a constant number of queries."""
    newest = Step.objects.filter(workflow=workflow).order_by("-position")[:MOST_STEPS]
    steps = list(reversed(newest.prefetch_related(Prefetch("failures"))))
    said, heard = words_of(workflow)
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
        # A command's last words are shown with all that it said.
        "last_words": "" if heard else last_words,
        "needs_credits": (workflow.error or {}).get("code") in UNPAID,
        "gates": gates_of(steps, workflow),
        **outcome_of(workflow, heard),
        "params": shown(workflow.params) if workflow.params else "",
        "took": span(ended - workflow.started_at) if workflow.started_at else "",
        "failed_name": title_of(failed, names) if failed else "",
        "failed_step": failed if workflow.status == Status.ERRORED else None,
        **sandbox_of(workflow, steps),
        "may_pause": not workflow.is_over and workflow.status != Status.PAUSED,
    }


def sandbox_of(workflow: Workflow, steps: list[Step]) -> dict[str, Any]:
    """Whether there is one to look into, and until when one is kept whose task is over."""
    here = place.read(workflow.pk)
    kept = here.keep_until if here and workflow.is_over else 0.0
    return {
        "has_sandbox": here is not None
        or any((one.detail or {}).get("session_id") for one in steps),
        "kept_until": datetime.fromtimestamp(kept, UTC) if kept else None,
    }


def outcome_of(workflow: Workflow, heard: str) -> dict[str, Any]:
    """What came of it: the answer by itself where there is one, and all of it to be unfolded."""
    whole = workflow.output
    if whole is None:
        return {"answer": None, "whole": ""}
    answer = whole["output"] if isinstance(whole, dict) and "output" in whole else whole
    is_said = answer in (None, "") or (heard and answer is not whole)
    return {
        "answer": None if is_said else readable(answer),
        "whole": "" if isinstance(whole, str) else shown(whole),
    }


def words_of(workflow: Workflow) -> tuple[list[WorkflowEvent], str]:
    """The newest messages, and the end of what a command says, put together again."""
    rows = WorkflowEvent.objects.filter(workflow=workflow, type__in=["log", "output"])
    said: list[WorkflowEvent] = []
    pieces: list[str] = []
    for one in rows.order_by("-seq")[:MOST_PIECES]:
        message = one.payload.get("message")
        if isinstance(message, dict) and "stream" in message:
            pieces.append(str(message.get("text", "")))
        elif len(said) < MOST_LINES:
            said.append(one)
    return said[::-1], "".join(reversed(pieces))[-HEARD:]
