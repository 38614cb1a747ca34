"""What people see of a run: the state of each node, and what one node received and returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models.functions import Left

from agents.canvas.expressions import Facts, fill, node_in, parse, paths_in
from agents.canvas.graph import NODE_TYPES, SECRET, TEMPLATES, Node
from agents.models import CanvasRevision
from core.exceptions import Invalid, NotFound
from orchestrator.canvas.draft_runs import output_of
from orchestrator.canvas.plan import CANVAS
from orchestrator.canvas.run import PART, SKIPPED, RunParams
from orchestrator.models import Step, Workflow, attempts_of

#: How many characters of an output are shown on its node.
PREVIEW = 160
#: How many characters of an input or output are shown in full.
LONGEST_SHOWN = 100_000


def node_of(workflow_name: str, step: object) -> str | None:
    """Return the node that a step of this workflow belongs to, or None if it is no canvas."""
    if workflow_name != CANVAS or not isinstance(step, str) or not step:
        return None
    return step.partition(PART)[0]


def with_previews(steps: Any) -> Any:
    """Read the beginning of each result in place of the result, which may be large."""
    return steps.defer("result").annotate(preview=Left("result", PREVIEW))


def states_of(run: Workflow, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return each node that the run has reached, in that order, with the state of its last step."""
    given = run.params.get("given") or {}
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        node = step.name.partition(PART)[0]
        began = found.get(node, {}).get("started_at", step.started_at)
        is_end = step.name in (node, f"{node}{SKIPPED}")
        found[node] = {
            "node": node,
            "status": _status(step),
            "error": step.error if step.status == Step.Status.ERRORED else None,
            "started_at": began,
            "finished_at": step.finished_at if is_end else None,
            "is_given": node in given,
            "preview": _preview(step) if step.name == node else "",
        }
    return list(found.values())


def _preview(step: Step) -> str:
    """Return the beginning of an output; an agent's answer is shown when its node is opened."""
    text = getattr(step, "preview", None) or ""
    if step.kind == Step.Kind.RUN_SESSION or text == "null":
        return ""
    return text


def _status(step: Step) -> str:
    """Return a node's status: it is complete with its own step, and running before that."""
    if step.name.endswith(SKIPPED):
        return "skipped"
    if step.status == Step.Status.ERRORED:
        return "errored"
    if step.status == Step.Status.WAITING:
        is_approval = step.kind == Step.Kind.WAIT_FOR_APPROVAL
        return str(Workflow.Status.WAITING_APPROVAL if is_approval else Workflow.Status.WAITING)
    is_own = PART not in step.name
    return "complete" if is_own and step.status == Step.Status.COMPLETE else "running"


def names_of(workflow: Workflow) -> dict[str, str]:
    """Return the names of the nodes of a canvas's run."""
    if workflow.name != CANVAS:
        return {}
    revision = _revision_of(workflow)
    return {one["id"]: one.get("name") or one["id"] for one in revision.nodes} if revision else {}


def _revision_of(workflow: Workflow) -> CanvasRevision | None:
    number, agent = workflow.params.get("revision"), workflow.params.get("agent")
    rows = CanvasRevision.objects.for_workspace(workflow.workspace_id)
    return rows.filter(agent_id=agent, number=number).first()


def title_of(step: Step, names: dict[str, str]) -> str:
    """Return the node's name, and which part of the node this step is."""
    node, _, part = step.name.partition(PART)
    if node not in names:
        return str(step)
    return f"{names[node]} · {part}" if part else names[node]


# ── One node ─────────────────────────────────────────────────────────────────────────────────────


def detail_of(run: Workflow, node_id: str) -> dict[str, Any]:
    """Return all that is known of one node in this run."""
    steps = Step.objects.filter(workflow=run).order_by("position").prefetch_related("failures")
    own = steps.filter(name=node_id) | steps.filter(name__startswith=f"{node_id}{PART}")
    rows = list(own)
    states = states_of(run, rows)
    if not states:
        raise NotFound("The run has not reached this node.")
    end = next((one for one in rows if one.name == node_id), None)
    is_done = end is not None and end.status == Step.Status.COMPLETE
    waiting = next((one for one in rows if one.status == Step.Status.WAITING), None)
    return {
        **states[0],
        "input": shown(_input_of(run, node_id)),
        "output": shown(output_of(end)) if end and is_done else None,
        "has_output": is_done,
        "cost": _cost_of(rows),
        "attempts": [
            {"number": one.number, "status": one.status, "error": one.error}
            for step in rows
            for one in attempts_of(step)
            if step.failures.all()
        ],
        "session_id": next((one for step in reversed(rows) if (one := _session_of(step))), None),
        "approval_step": waiting.name if waiting else "",
    }


def costs_of(run: Workflow) -> dict[str, str]:
    """Return what the agents of each node cost, by node."""
    found: dict[str, list[Step]] = {}
    rows = Step.objects.filter(workflow=run, kind=Step.Kind.RUN_SESSION)
    for step in rows.filter(status=Step.Status.COMPLETE):
        found.setdefault(step.name.partition(PART)[0], []).append(step)
    costs = {node: _cost_of(steps) for node, steps in found.items()}
    return {node: cost for node, cost in costs.items() if cost}


def _cost_of(steps: Iterable[Step]) -> str | None:
    total = 0.0
    for step in steps:
        result = step.output if step.kind == Step.Kind.RUN_SESSION else None
        if isinstance(result, dict):
            total += float((result.get("usage") or {}).get("cost") or 0)
    return f"{total:.6f}" if total else None


def _session_of(step: Step) -> str | None:
    return step.detail.get("session_id") if isinstance(step.detail, dict) else None


def shown(value: Any) -> Any:
    """Return a value as it is, or the beginning of its text if it is long."""
    text = value if isinstance(value, str) else str(value)
    if len(text) <= LONGEST_SHOWN:
        return value
    return f"{text[:LONGEST_SHOWN]}\n[… and {len(text) - LONGEST_SHOWN:,} more characters]"


def _input_of(run: Workflow, node_id: str) -> Any:
    """Return what the node works with: its templates, filled in as the run did."""
    params = RunParams.model_validate(run.params)
    revision = _revision_of(run)
    nodes = {one["id"]: one for one in revision.nodes} if revision else {}
    if revision is None or node_id not in nodes:
        return None
    node = Node.model_validate(nodes[node_id])
    if node.type == "trigger":
        return params.input
    outputs = _outputs(run, node, nodes, revision.edges)
    facts = Facts(input=params.input, outputs=outputs)
    if node.type == "condition":
        return _paths_of_condition(node, facts)
    names = node.config if node.type in NODE_TYPES else TEMPLATES.get(node.type, ())
    given = {name: node.config[name] for name in names if node.config.get(name) is not None}
    if node.type == "output" and not given:
        return outputs or None
    try:
        filled = fill(given, facts, keep=SECRET)
    except Invalid as fault:
        return fault.detail
    return next(iter(filled.values())) if len(filled) == 1 else filled or None


def _paths_of_condition(node: Node, facts: Facts) -> Any:
    try:
        paths = parse(str(node.config.get("expression"))).paths
    except Invalid:
        return None
    return {path: fill(f"{{{{{path}}}}}", facts) for path in paths}


def _outputs(
    run: Workflow, node: Node, nodes: Mapping[str, Any], edges: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the outputs that a node refers to, or those that lead to it if it names none."""
    texts = [node.config]
    if node.type == "condition":
        texts = [{"x": f"{{{{{path}}}}}"} for path in _safe_paths(node)]
    named = {node_in(path, nodes) for path in paths_in(texts)}
    wanted = {name for name in named if name}
    if node.type == "output" and not wanted:
        wanted = {edge["source"] for edge in edges if edge["target"] == node.id}
    rows = Step.objects.filter(workflow=run, name__in=wanted, status=Step.Status.COMPLETE)
    return {step.name: output_of(step) for step in rows}


def _safe_paths(node: Node) -> tuple[str, ...]:
    try:
        return parse(str(node.config.get("expression"))).paths
    except Invalid:
        return ()
