"""Where each node of a canvas's run stands, told by the steps that were done for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agents.models import CanvasRevision
from orchestrator.canvas.running import CANVAS
from orchestrator.canvas.walk import PART, SKIPPED
from orchestrator.models import Step, Workflow


def node_of(workflow_name: str, step: object) -> str | None:
    """The node that a step of this workflow belongs to, if it is a canvas's."""
    if workflow_name != CANVAS or not isinstance(step, str) or not step:
        return None
    return step.partition(PART)[0]


def states_of(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Each node that the run has come to, in that order, as its last step tells."""
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        node = step.name.partition(PART)[0]
        began = found.get(node, {}).get("started_at", step.started_at)
        found[node] = {
            "node": node,
            "status": _status(step),
            "error": step.error if step.status == Step.Status.ERRORED else None,
            "started_at": began,
            "finished_at": step.finished_at if step.name in (node, f"{node}{SKIPPED}") else None,
        }
    return list(found.values())


def names_of(workflow: Workflow) -> dict[str, str]:
    """What the nodes of a canvas's run are called by those who drew it."""
    if workflow.name != CANVAS:
        return {}
    number, agent = workflow.params.get("revision"), workflow.params.get("agent")
    rows = CanvasRevision.objects.for_workspace(workflow.workspace_id)
    found = rows.filter(agent_id=agent, number=number).first()
    return {one["id"]: one.get("name") or one["id"] for one in found.nodes} if found else {}


def title_of(step: Step, names: dict[str, str]) -> str:
    """The node's name, and which part of it this step is."""
    node, _, part = step.name.partition(PART)
    if node not in names:
        return str(step)
    return f"{names[node]} · {part}" if part else names[node]


def _status(step: Step) -> str:
    """A node is complete with its own step; what comes before that is on the way there."""
    if step.name.endswith(SKIPPED):
        return "skipped"
    if step.status == Step.Status.ERRORED:
        return "errored"
    if step.status == Step.Status.WAITING:
        is_asked = step.kind == Step.Kind.WAIT_FOR_APPROVAL
        return str(Workflow.Status.WAITING_APPROVAL if is_asked else Workflow.Status.WAITING)
    is_own = PART not in step.name
    return "complete" if is_own and step.status == Step.Status.COMPLETE else "running"
