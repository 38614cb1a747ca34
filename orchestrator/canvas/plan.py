"""The order in which a published graph is walked, and the checks before it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from uuid import UUID

from agents.canvas.graph import (
    CONVERSATIONS,
    Edge,
    Graph,
    Issue,
    Node,
    body_of,
    errors_in,
    validate,
)
from agents.canvas.revisions import get_revision
from agents.canvas.start_form import input_faults
from agents.exceptions import CanvasInvalid
from agents.models import Agent
from core.exceptions import InvalidFields, NotFound
from orchestrator.engine.definition import definitions
from orchestrator.tasks.start import CREATE, EXECUTE
from tools_app.registry import Category, Tool
from tools_app.workspace_tools import tools_of_workspace

OWN, _ = CONVERSATIONS
#: The name of the workflow that runs canvases.
CANVAS = "canvas"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The order of the nodes. Branches wait at the same time; a node waits for all that lead to it."""

    order: tuple[Node, ...]
    into: dict[str, tuple[Edge, ...]]
    handles: dict[str, frozenset[str]]
    #: Nodes that have a conversation of their own.
    apart: frozenset[str]


def plan_of(graph: Graph) -> Plan:
    """Return the nodes in an order in which each follows all that lead to it, always the same."""
    into: dict[str, list[Edge]] = defaultdict(list)
    handles: dict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        into[edge.target].append(edge)
        handles[edge.source].add(edge.handle)
    left = [node for node in graph.nodes if node.type != "note"]
    order, done = [], set[str]()
    while left:
        free = [node for node in left if all(edge.source in done for edge in into[node.id])]
        if not free:
            raise CanvasInvalid("The graph has a cycle.", errors=[])
        # One at a time, so that a branch is followed in the order in which it was drawn.
        order.append(free[0])
        done.add(free[0].id)
        left.remove(free[0])
    return Plan(
        order=tuple(order),
        into={name: tuple(edges) for name, edges in into.items()},
        handles={name: frozenset(words) for name, words in handles.items()},
        apart=nodes_apart(graph),
    )


def nodes_apart(graph: Graph) -> frozenset[str]:
    """Return the nodes with a conversation of their own: by configuration, or by position."""
    apart = {node.id for node in graph.nodes if node.config.get("conversation") == OWN}
    free = [
        node
        for node in graph.nodes
        if node.type in ("agent", "sub_agent") and node.config.get("conversation") is None
    ]
    by_agent: dict[str, list[Node]] = defaultdict(list)
    for node in free:
        agent = str(node.config.get("agent")) if node.type == "sub_agent" else ""
        by_agent[agent].append(node)
    if any(len(nodes) > 1 for nodes in by_agent.values()):
        reachability = Reachability(graph)
        for nodes in by_agent.values():
            for one, other in combinations(nodes, 2):
                if reachability.are_side_by_side(one.id, other.id):
                    apart |= {one.id, other.id}
    return frozenset(apart)


class Reachability:
    """Which nodes can be reached from where, and which pairs one run can reach both of."""

    def __init__(self, graph: Graph) -> None:
        self._edges: dict[str, list[tuple[str, str]]] = defaultdict(list)
        choices = {node.id for node in graph.nodes if node.type in ("condition", "approval")}
        for edge in graph.edges:
            outcome = _outcome(edge.handle) if edge.source in choices else ""
            self._edges[edge.source].append((edge.target, outcome))
        self._after = {node.id: self._reached([node.id]) for node in graph.nodes}
        starts = [node.id for node in graph.nodes if node.type == "trigger"]
        #: For each choice, what the run can reach by each of its outcomes.
        self._choices = [
            [
                self._reached(starts, choice, outcome)
                for outcome in sorted({word for _, word in self._edges[choice]})
            ]
            for choice in sorted(choices)
            if self._edges[choice]
        ]

    def are_side_by_side(self, one: str, other: str) -> bool:
        is_ordered = other in self._after[one] or one in self._after[other]
        return not is_ordered and all(
            any(one in reached and other in reached for reached in outcomes)
            for outcomes in self._choices
        )

    def _reached(self, starts: list[str], choice: str = "", chosen: str = "") -> set[str]:
        seen, waiting = set(starts), list(starts)
        while waiting:
            here = waiting.pop()
            for target, outcome in self._edges[here]:
                is_open = here != choice or outcome == chosen
                if is_open and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen


def _outcome(handle: str) -> str:
    """Return the outcome that an edge stands for. An approval's handles but one mean approved."""
    return handle if handle in ("true", "false", "rejected") else "approved"


def find_canvas_agent(workspace_id: UUID, agent_id: UUID | str) -> Agent:
    rows = Agent.objects.for_workspace(workspace_id).select_related("current")
    found = rows.filter(pk=agent_id).first()
    if found is None:
        raise NotFound("There is no such agent.")
    return found


def graph_of(agent: Agent, revision: int) -> Graph:
    """Return the graph of a revision. A revision never changes, so every replay sees the same."""
    written = get_revision(agent, revision)
    return Graph.model_validate({"nodes": written.nodes, "edges": written.edges})


def check_input(graph: Graph, given: Any) -> None:
    """Raise unless the input of a run has what the start form of its trigger asks for."""
    schema = next((one.config.get("schema") for one in graph.nodes if one.type == "trigger"), None)
    if faults := input_faults(schema, given):
        errors = [
            {"field": name, "pointer": f"#/input/{name}", "message": message, "code": "wrong_input"}
            for name, message in faults
        ]
        raise InvalidFields(f"The input does not fit the start form. {faults[0][1]}", errors=errors)


def check_runnable(agent: Agent, graph: Graph) -> None:
    """Raise, with the node of each error, unless the graph can run now."""
    tools = tools_of_workspace(agent.workspace_id)
    found = [*errors_in(validate(graph, tools=tools)), *_missing(agent, graph, tools)]
    if found:
        errors = [
            {
                "field": one.node or "",
                "pointer": f"#/nodes/{one.node}" if one.node else "#",
                "message": one.message,
                "code": one.code,
            }
            for one in found
        ]
        raise CanvasInvalid(f"This canvas cannot run: {found[0].message}", errors=errors)


def _missing(agent: Agent, graph: Graph, tools: Mapping[str, Tool]) -> list[Issue]:
    """Return complaints about agents that do not exist and tools that a canvas cannot call."""
    nodes = [(node, body_of(node) or node) for node in graph.nodes]
    wanted = {ref for _, act in nodes if (ref := _agent_of(act)) is not None}
    rows = Agent.objects.for_workspace(agent.workspace_id).filter(archived_at=None)
    known = {
        word
        for pk, name in rows.values_list("pk", "current__name")
        for word in (str(pk), name)
        if word in wanted
    }
    found = []
    for node, act in nodes:
        ref = _agent_of(act)
        if ref is not None and ref not in known:
            message = f"There is no agent {ref[:80]!r}." if ref else "This node needs an agent."
            found.append(Issue(code="unknown_agent", message=message, node=node.id))
        tool = tools.get(str(act.config.get("tool"))) if act.type == "tool" else None
        if tool and (why := why_unfit(tool)):
            found.append(Issue(code="unfit_tool", message=why, node=node.id))
        name = str(act.config.get("workflow"))
        if act.type == "workflow" and name != CANVAS and (why := why_unfit_workflow(name)):
            found.append(Issue(code="unfit_workflow", message=why, node=node.id))
    return found


def _agent_of(node: Node) -> str | None:
    """Return the agent that a node names, or None if it needs none."""
    is_canvas = node.type == "workflow" and node.config.get("workflow") == CANVAS
    return str(node.config.get("agent") or "") if node.type == "sub_agent" or is_canvas else None


def why_unfit_workflow(name: str) -> str:
    """Return why a node cannot run this workflow, or an empty string."""
    if name in (EXECUTE, CREATE):
        return f"{name} works in a sandbox of its own, which a canvas cannot follow."
    if name != CANVAS and name not in {made.name for made in definitions()}:
        return f"There is no workflow {name[:80]!r}."
    return ""


def why_unfit(tool: Tool) -> str:
    """Return why a canvas cannot call this tool, or an empty string."""
    if tool.ownership == "custom":
        return f"{tool.name} is answered by a client, and a canvas has none."
    if tool.category == Category.SESSION and not tool.read_only:
        return f"{tool.name} needs a conversation. Use an agent or a sub-agent node instead."
    return ""
