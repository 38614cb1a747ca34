"""Durable workflows, and the processes that run everything."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.engine.definition import Event, Workflow, WorkflowAgent, workflow
    from orchestrator.engine.lifecycle import run_workflow
    from orchestrator.engine.steps import Steps
    from orchestrator.exceptions import NonRetryableError, StepFailed, WorkflowRejected

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

_MODULES = {
    "NonRetryableError": "orchestrator.exceptions",
    "StepFailed": "orchestrator.exceptions",
    "WorkflowRejected": "orchestrator.exceptions",
    "Steps": "orchestrator.engine.steps",
    "run_workflow": "orchestrator.engine.lifecycle",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: Django loads this package before any model."""
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, "orchestrator.engine.definition")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
