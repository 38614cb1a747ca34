"""The buttons of a workflow's page: approve, reject, pause, resume, terminate, restart."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from config.faults import Conflict, NotFound
from orchestrator import gates, lifecycle
from orchestrator.engine.starting import find_workflow
from orchestrator.models import Workflow
from tenants.access import Principal
from tenants.authentication import principal_of

Act = Callable[[Workflow, Principal, HttpRequest], None]


def _answer(allow: bool) -> Act:
    def act(workflow: Workflow, principal: Principal, request: HttpRequest) -> None:
        note, step = request.POST.get("note", ""), request.POST.get("step", "")
        gates.answer_gate(workflow, principal, allow=allow, note=note, step=step)

    return act


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


ACTS: dict[str, Act] = {
    "approve": _answer(True),
    "reject": _answer(False),
    "pause": lambda workflow, *_: lifecycle.pause(workflow),
    "resume": lambda workflow, *_: lifecycle.resume(workflow),
    "terminate": _terminate,
    "restart": _restart,
}


@require_POST
def workflow_act(request: HttpRequest, workflow_id: UUID, act: str) -> HttpResponse:
    """Do it and show the workflow, with what is in the way if something is."""
    principal = principal_of(request)
    workflow = find_workflow(principal, workflow_id, "run")
    if act not in ACTS:
        raise NotFound
    try:
        ACTS[act](workflow, principal, request)
    except (Conflict, NotFound) as fault:
        messages.error(request, fault.detail)
    return redirect("workflow", workflow_id)
