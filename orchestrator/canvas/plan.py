"""A published graph as it is walked: each node after all that lead to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from agents.canvas import revision_of, validate
from agents.canvas_check import Complaint, errors_in
from agents.graph import Edge, Graph, Node
from agents.models import Agent
from config.faults import CanvasInvalid, NotFound
from orchestrator.canvas.conversations import nodes_apart
from tools_app.registry import Category, Tool
from tools_app.workspace_tools import tools_of_workspace


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Branches wait at the same time; a node where several meet waits for all of them."""

    order: tuple[Node, ...]
    into: dict[str, tuple[Edge, ...]]
    handles: dict[str, frozenset[str]]
    #: Nodes that talk in a conversation of their own.
    apart: frozenset[str]


def plan_of(graph: Graph) -> Plan:
    """The nodes in an order in which each comes after all that lead to it, the same every time."""
    into: dict[str, list[Edge]] = defaultdict(list)
    handles: dict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        into[edge.target].append(edge)
        handles[edge.source].add(edge.handle)
    left, order, done = list(graph.nodes), [], set[str]()
    while left:
        free = [node for node in left if all(edge.source in done for edge in into[node.id])]
        if not free:
            raise CanvasInvalid("The graph has a circle.", errors=[])
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


def find_canvas_agent(workspace_id: UUID, agent_id: UUID | str) -> Agent:
    rows = Agent.objects.for_workspace(workspace_id).select_related("current")
    found = rows.filter(pk=agent_id).first()
    if found is None:
        raise NotFound("There is no such agent.")
    return found


def graph_of(agent: Agent, revision: int) -> Graph:
    """A revision never changes, so every replay sees the same."""
    written = revision_of(agent, revision)
    return Graph.model_validate({"nodes": written.nodes, "edges": written.edges})


def check_runnable(agent: Agent, graph: Graph) -> None:
    """Raise, with the node of each error, unless the graph can run as things are now."""
    found = [*errors_in(validate(agent, graph)), *_missing(agent, graph)]
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


def _missing(agent: Agent, graph: Graph) -> list[Complaint]:
    """Agents that are not there, and tools that cannot be called by a canvas."""
    wanted = {str(node.config.get("agent")) for node in graph.nodes if node.type == "sub_agent"}
    rows = Agent.objects.for_workspace(agent.workspace_id).filter(archived_at=None)
    known = {
        word
        for pk, name in rows.values_list("pk", "current__name")
        for word in (str(pk), name)
        if word in wanted
    }
    tools = tools_of_workspace(agent.workspace_id)
    found = []
    for node in graph.nodes:
        if node.type == "sub_agent" and str(node.config.get("agent")) not in known:
            said = f"There is no agent {str(node.config.get('agent'))[:80]!r}."
            found.append(Complaint(code="unknown_agent", message=said, node=node.id))
        tool = tools.get(str(node.config.get("tool"))) if node.type == "tool" else None
        if tool and (why := why_unfit(tool)):
            found.append(Complaint(code="unfit_tool", message=why, node=node.id))
    return found


def why_unfit(tool: Tool) -> str:
    """Why a canvas cannot call this tool, if so."""
    if tool.ownership == "custom":
        return f"{tool.name} is answered by a client, which a canvas does not have."
    if tool.category is Category.SESSION and not tool.read_only:
        return f"{tool.name} belongs to a conversation. Use a sub-agent or an agent instead."
    return ""
