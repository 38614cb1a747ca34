"""Durable workflows, and the processes that run everything."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.faults import NonRetryableError, StepFailed, WorkflowRejected
    from orchestrator.engine.definition import Event, Workflow, WorkflowAgent, workflow
    from orchestrator.engine.starting import run_workflow
    from orchestrator.engine.steps import Steps

__all__ = [
    "Event",
    "NonRetryableError",
    "StepFailed",
    "Steps",
    "Workflow",
    "WorkflowAgent",
    "WorkflowRejected",
    "run_workflow",
    "workflow",
]

_HOMES = {
    "NonRetryableError": "config.faults",
    "StepFailed": "config.faults",
    "WorkflowRejected": "config.faults",
    "Steps": "orchestrator.engine.steps",
    "run_workflow": "orchestrator.engine.starting",
}


def __getattr__(name: str) -> object:
    """The public names, imported when asked for: Django loads this package before any model."""
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "orchestrator.engine.definition")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
