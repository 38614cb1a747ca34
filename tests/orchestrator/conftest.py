"""Fixtures for workflows, and an engine that is served in the test's own thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from orchestrator import Workflow as Definition
from orchestrator import workflow
from orchestrator.engine import store
from orchestrator.engine.definition import known_versions, registry
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.engine.runner import Runner
from orchestrator.engine.store import rows
from orchestrator.models import Step, Workflow, WorkflowTrigger, attempts_of
from orchestrator.triggers import create_trigger
from sessions_app.lanes.signals import StopSignal
from tenants.access import Principal, principal_of_user
from tenants.models import User, Workspace

OWNER = uuid4()


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Remove what a test registers after it."""
    known = dict(registry)
    yield
    registry.clear()
    registry.update(known)


@pytest.fixture
def principal(owner: User, workspace: Workspace) -> Principal:
    return principal_of_user(owner, workspace.pk)


@pytest.fixture
def define() -> Callable[..., None]:
    """Register a function `(event, step)` as a workflow."""

    def use(run: Callable[..., Any], name: str = "test", version: int = 1, **facts: Any) -> None:
        body = {"run": lambda self, event, step: run(self, event, step), **facts}
        workflow(name=name, version=version)(type("Defined", (Definition,), body))

    return use


@pytest.fixture
def begin(workspace: Workspace, owner: User) -> Callable[..., Workflow]:
    """Start a workflow of the workspace."""

    def use(params: Any = None, name: str = "test", **words: Any) -> Workflow:
        made, _ = start_workflow(workspace.pk, name, params, created_by_id=owner.pk, **words)
        return made

    return use


def claim(owner: Any = OWNER) -> store.WorkflowClaim | None:
    return store.claim_next(owner, known_versions())


def serve_one(held: store.WorkflowClaim | None = None) -> bool:
    """Run one workflow as a worker would."""
    held = held or claim()
    if held is None:
        return False
    Runner(held, StopSignal(), lambda _: None).run()
    return True


def serve(most: int = 100) -> int:
    """Run all workflows that are due."""
    served = 0
    while served < most and serve_one():
        served += 1
    return served


def pass_time(workflow: Workflow, seconds: float) -> None:
    """Move the workflow's timers back by this many seconds."""
    shift = [seconds, workflow.pk]
    rows(
        "UPDATE workflows SET wake_at = wake_at - make_interval(secs => %s), "
        "paused_at = paused_at - make_interval(secs => %s) WHERE id = %s RETURNING 1",
        [seconds, *shift],
    )
    rows(
        "UPDATE workflow_steps SET wake_at = wake_at - make_interval(secs => %s), "
        "retry_at = retry_at - make_interval(secs => %s) "
        "WHERE workflow_id = %s AND status IN ('waiting', 'retrying') RETURNING 1",
        [seconds, *shift],
    )


def now(workflow: Workflow) -> Workflow:
    """Return the workflow as it is stored now."""
    return Workflow.objects.get(pk=workflow.pk)


def steps(workflow: Workflow) -> list[Step]:
    return list(Step.objects.filter(workflow=workflow).order_by("position"))


def states(workflow: Workflow) -> list[tuple[str, str, int]]:
    return [(one.name, one.status, one.attempts) for one in steps(workflow)]


def attempts(workflow: Workflow) -> list[tuple[int, str]]:
    """Return the number and status of every attempt of every step."""
    return [(one.number, one.status) for step in steps(workflow) for one in attempts_of(step)]


@pytest.fixture
def flow(define: Callable[..., None]) -> None:
    """Register a workflow that returns its payload."""
    define(lambda self, event, step: event.payload, name="flow")


@pytest.fixture
def timed(flow: None, workspace: Workspace, owner: User) -> WorkflowTrigger:
    """Create a trigger that starts the workflow every night."""
    made = create_trigger(
        workspace_id=workspace.pk, created_by=owner, name="Nightly", kind="schedule",
        workflow="flow", cron="0 3 * * *", params={"at": "{{input.due_at}}"},
    )  # fmt: skip
    return made.trigger


def make_due(trigger: WorkflowTrigger) -> datetime:
    at = timezone.now() - timedelta(seconds=5)
    WorkflowTrigger.objects.filter(pk=trigger.pk).update(next_at=at)
    return at
