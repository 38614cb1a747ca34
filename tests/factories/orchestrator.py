"""Creates rows of workflows, their steps, triggers and terminals."""

from __future__ import annotations

from django.utils import timezone

from core.ids import uuid7
from orchestrator.models import (
    Step,
    StepAttempt,
    Terminal,
    TriggerFiring,
    Workflow,
    WorkflowEvent,
    WorkflowSignal,
    WorkflowTrigger,
)
from tenants.models import Workspace
from tests.factories.base import Factory, numbers, user
from tests.factories.sessions_app import session


def workflow(workspace: Workspace) -> Workflow:
    """Create a completed workflow, so that no worker runs it."""
    return Workflow.objects.create(
        workspace=workspace,
        key=f"key-{next(numbers)}",
        name="digest",
        status=Workflow.Status.COMPLETE,
        finished_at=timezone.now(),
        created_by=user(),
    )


def step(workspace: Workspace) -> Step:
    return Step.objects.create(workflow=workflow(workspace), position=0, name="draft")


def trigger(workspace: Workspace) -> WorkflowTrigger:
    return WorkflowTrigger.objects.create(
        workspace=workspace,
        name=f"Hook {next(numbers)}",
        kind="webhook",
        workflow="digest",
        token=f"token-{next(numbers)}",
        secret="whsec_bmV2ZXItc2hvd24tdG8tYW55b25l",
        created_by=user(),
    )


FACTORIES: dict[str, Factory] = {
    "orchestrator.WorkflowTrigger": trigger,
    "orchestrator.TriggerFiring": lambda workspace: TriggerFiring.objects.create(
        workspace=workspace, trigger=trigger(workspace), outcome="started", workflow_id=uuid7()
    ),
    "orchestrator.Workflow": workflow,
    "orchestrator.Step": step,
    "orchestrator.StepAttempt": lambda workspace: StepAttempt.objects.create(
        step=step(workspace), number=1, status="errored", started_at=timezone.now()
    ),
    "orchestrator.WorkflowSignal": lambda workspace: WorkflowSignal.objects.create(
        workflow=workflow(workspace), seq=next(numbers), type="paid", payload="{}"
    ),
    "orchestrator.Terminal": lambda workspace: Terminal.objects.create(
        workspace=workspace,
        session=session(workspace),
        status=Terminal.Status.CLOSED,
        closed_at=timezone.now(),
        created_by=user(),
    ),
    "orchestrator.WorkflowEvent": lambda workspace: WorkflowEvent.objects.create(
        workflow=workflow(workspace), seq=1, type="log", payload={"message": "hello"}
    ),
}
