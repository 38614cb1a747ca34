"""The tables of workflows, triggers and terminals."""

from orchestrator.models.step import Step, StepAttempt
from orchestrator.models.terminal import Terminal
from orchestrator.models.trigger import TriggerFiring, WorkflowTrigger
from orchestrator.models.workflow import Workflow, WorkflowEvent, WorkflowSignal

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
