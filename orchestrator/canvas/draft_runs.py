"""Runs the draft of a canvas as a test, for people who may build its agent.

A test uses the outputs that are pinned on nodes. It can begin at one node: earlier nodes then keep
their outputs of a run before, and nothing else runs. Tool calls are under the same policy as in
every run.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from agents.canvas.graph import Graph
from agents.canvas.revisions import get_revision
from agents.exceptions import CanvasConflict
from agents.models import Agent, Canvas
from core.exceptions import Conflict, Invalid, NotFound
from orchestrator.canvas.plan import CANVAS, check_input, check_runnable, graph_of
from orchestrator.canvas.run import CanvasParams
from orchestrator.engine.definition import latest_version
from orchestrator.engine.lifecycle import start_prepared
from orchestrator.models import Step, Workflow
from sessions_app.models import ToolExecution
from tenants.access import Principal, authorise


def start_test(
    principal: Principal,
    agent: Agent,
    *,
    input: Any,
    revision: int,
    key: str | None = None,
    begin: str = "",
    before: UUID | None = None,
) -> Workflow:
    """Test this revision, which must be the newest, from its trigger or from the node `begin`.

    `before` is the run whose outputs the earlier nodes keep.
    """
    authorise(principal, "build", agent)
    workspace_id = authorise(principal, "run", agent)
    newest = Canvas.objects.filter(agent=agent).values_list("revision", flat=True).first()
    if not newest or revision != newest:
        raise CanvasConflict("The canvas changed meanwhile. Look at the newer one, then run it.")
    if agent.archived_at:
        raise Conflict("This agent was archived.")
    graph = graph_of(agent, get_revision(agent, revision).number)
    check_runnable(agent, graph)
    given = {node.id: node.pin.output for node in graph.nodes if node.pin}
    params: dict[str, Any] = {"only": None, "begin": ""}
    if begin:
        after = nodes_after(graph, begin)
        given = {**_outputs_of(agent, before), **given}
        known = {node.id for node in graph.nodes}
        given = {name: output for name, output in given.items() if name in known - after}
        _check_reachable(graph, begin, given)
        params = {"only": sorted(after), "begin": begin}
    else:
        check_input(graph, input)
    fields = CanvasParams(agent=agent.pk, input=input, revision=revision).model_dump(mode="json")
    started, _ = start_prepared(
        workspace_id,
        latest_version(CANVAS),
        {**fields, "test": True, "given": given, "source_sessions": _sources_of(before), **params},
        key=key,
        created_by_id=principal.user_id,
        key_id=principal.key_id,
        agent_id=agent.pk,
    )
    return started


def nodes_after(graph: Graph, begin: str) -> set[str]:
    """Return the node and all that follow it."""
    if all(node.id != begin for node in graph.nodes):
        raise NotFound(f"There is no node {begin[:80]!r}.")
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.source, []).append(edge.target)
    seen, waiting = {begin}, [begin]
    while waiting:
        for target in following.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def _outputs_of(agent: Agent, run_id: UUID | None) -> dict[str, Any]:
    """Return the outputs of the nodes that a run of this canvas has finished."""
    if run_id is None:
        return {}
    runs = Workflow.objects.for_workspace(agent.workspace_id).filter(name=CANVAS, agent=agent)
    run = runs.filter(pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run of this canvas.")
    steps = Step.objects.filter(workflow=run, status=Step.Status.COMPLETE)
    # Only the step with a node's own name holds its output.
    found = {step.name: output_of(step) for step in steps.exclude(name__contains="/")}
    return {name: output for name, output in found.items() if name}


def _sources_of(run_id: UUID | None) -> list[str]:
    """Return the sessions of an earlier run: who reads its outputs is tainted if they are."""
    if run_id is None:
        return []
    asked = Step.objects.filter(workflow=run_id, kind=Step.Kind.RUN_SESSION)
    tools = ToolExecution.objects.filter(workflow_id=run_id)
    talked = [(detail or {}).get("session_id") for detail in asked.values_list("detail", flat=True)]
    earlier = Workflow.objects.get(pk=run_id).params.get("source_sessions") or []
    found = {*talked, *map(str, tools.values_list("session_id", flat=True)), *earlier}
    return sorted(one for one in found if one)


def output_of(step: Step) -> Any:
    """Return the output of the node that this step ended: of an agent's answer, its text."""
    if step.kind == Step.Kind.RUN_SESSION and isinstance(step.output, dict):
        return step.output.get("text")
    return step.output


def _check_reachable(graph: Graph, begin: str, given: dict[str, Any]) -> None:
    """Raise if no node before `begin` has an output, so that it would have nothing to work with."""
    into = [edge.source for edge in graph.edges if edge.target == begin]
    if into and not any(source in given for source in into):
        raise Invalid("Run the canvas first, or pin the output of a node that leads to this one.")
