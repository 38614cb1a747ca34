"""The tables of workflows and terminals, one noun per module."""

from orchestrator.models.event import WorkflowEvent
from orchestrator.models.signal import WorkflowSignal
from orchestrator.models.step import Step, StepAttempt
from orchestrator.models.terminal import Terminal
from orchestrator.models.trigger import TriggerFiring, WorkflowTrigger
from orchestrator.models.workflow import Workflow

__all__ = [
    "Step",
    "StepAttempt",
    "Terminal",
    "TriggerFiring",
    "Workflow",
    "WorkflowEvent",
    "WorkflowSignal",
    "WorkflowTrigger",
]
