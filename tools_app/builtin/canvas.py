"""Tools with which an agent draws its canvas. Each call writes one revision of the draft."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import transaction
from django.template.defaultfilters import pluralize
from pydantic import Field

from agents import drafts
from agents.canvas.graph import NODE_TYPES, node_types, validate
from agents.canvas.revisions import Author, CanvasState, lock, read, save, written_by
from agents.exceptions import CanvasConflict
from agents.models import Agent
from core.exceptions import Fault, StaleEpoch
from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool
from tools_app.workspace_tools import tools_of_workspace

#: The distance between nodes that the model gave no position.
STEP = 220
SHOWN_COMPLAINTS = 10
KINDS = ", ".join(node_types())
#: What the nodes of plugins need, as `; weather: place, days`.
PLUGIN_CONFIGS = "".join(
    f"; {kind.name}: {', '.join(kind.config.model_fields)}" for kind in NODE_TYPES.values()
)
canvas_tool = partial(
    tool, category=Category.CANVAS, effects=[Effect.CANVAS], idempotent=True, seconds=30
)


class UpdateWorkflow(Arguments):
    nodes: list[dict[str, Any]] = Field(
        max_length=200,
        description=f"All nodes: id, type ({KINDS}), name, config, position {{x, y}}.",
    )
    edges: list[dict[str, Any]] = Field(
        default=[],
        max_length=500,
        description="All edges: source, target, handle (true or false out of a condition), label.",
    )
    revision: int = Field(
        ge=0, description="The revision of the draft that this replaces, 0 for the first."
    )
    confirm_empty: bool = Field(default=False, description="True to empty the canvas on purpose.")


class AddNode(Arguments):
    id: str = Field(description="A new short id, such as fetch_news.")
    type: str = Field(max_length=40, description=f"One of {KINDS}.")
    name: str = Field(default="", max_length=120, description="What people see on it.")
    config: dict[str, Any] = Field(
        default={},
        description="agent: prompt; tool: tool, input; condition: expression; approval: message; "
        f"sub_agent: agent, prompt; wait: seconds or event{PLUGIN_CONFIGS}. agent and sub_agent "
        "may say conversation: own or run.",
    )
    after: str = Field(default="", max_length=64, description="The node that leads to it, if any.")
    handle: str = Field(
        default="", max_length=40, description="true or false when `after` is a condition."
    )


class ConnectNodes(Arguments):
    source: str = Field(max_length=64, description="The id of the node that comes first.")
    target: str = Field(max_length=64, description="The id of the node that follows.")
    handle: str = Field(
        default="", max_length=40, description="true or false when the source is a condition."
    )
    label: str = Field(default="", max_length=120, description="What people see on the edge.")


@canvas_tool(title="Draw the workflow")
def update_workflow(arguments: UpdateWorkflow, context: ToolContext) -> str:
    """Replace the draft of your workflow's canvas, all of it, by these nodes and edges.

    The answer says what would keep it from running. People publish it; a draft runs nothing.
    """
    return change_canvas(
        context,
        lambda drawn: {"nodes": arguments.nodes, "edges": arguments.edges},
        revision=arguments.revision,
        confirm_empty=arguments.confirm_empty,
    )


@canvas_tool(title="Add a node")
def add_node(arguments: AddNode, context: ToolContext) -> str:
    """Add one node to the draft of your workflow's canvas, after another one if you name it."""

    def grown(drawn: CanvasState) -> dict[str, Any]:
        shape = drawn.graph.model_dump(mode="json")
        known = {node["id"]: node for node in shape["nodes"]}
        if arguments.id in known:
            raise ToolFailed(f"There is a node {arguments.id!r} already. Choose another id.")
        before = known.get(arguments.after)
        if arguments.after and before is None:
            raise ToolFailed(f"There is no node {arguments.after!r}. {_known(known)}")
        place = before["position"] if before else {"x": 0, "y": -STEP + STEP * len(known)}
        node = arguments.model_dump(include={"id", "type", "name", "config"})
        node["position"] = {"x": place["x"] + (STEP if before else 0), "y": place["y"]}
        shape["nodes"].append(node)
        if before:
            edge = {"source": arguments.after, "target": arguments.id, "handle": arguments.handle}
            shape["edges"].append(edge)
        return shape

    return change_canvas(context, grown)


@canvas_tool(title="Connect nodes")
def connect_nodes(arguments: ConnectNodes, context: ToolContext) -> str:
    """Let one node of the draft of your workflow's canvas lead to another."""

    def grown(drawn: CanvasState) -> dict[str, Any]:
        shape = drawn.graph.model_dump(mode="json")
        known = [node["id"] for node in shape["nodes"]]
        for end in (arguments.source, arguments.target):
            if end not in known:
                raise ToolFailed(f"There is no node {end!r}. {_known(known)}")
        shape["edges"].append(arguments.model_dump())
        return shape

    return change_canvas(context, grown)


def change_canvas(
    context: ToolContext,
    change: Callable[[CanvasState], dict[str, Any]],
    *,
    revision: int | None = None,
    confirm_empty: bool = False,
) -> str:
    """Write the changed draft, once for this call however often it is retried.

    The lane is locked first, then the canvas, so a worker that lost the lane writes nothing.
    """
    author = Author(session_id=context.session_id, run_id=context.run_id, call_id=context.call_id)
    with _complaints(), transaction.atomic():
        context.fence()
        # A builder draws for the agent that it builds, any other agent for itself.
        subject = context.about_id or context.agent_id
        agent = Agent.objects.for_workspace(context.workspace_id).get(pk=subject)
        if context.about_id:
            drafts.lock(agent)
        lock(agent)
        done = written_by(agent, author)
        if done is None:
            now = read(agent)
            done = save(
                agent,
                **change(now),
                revision=now.revision if revision is None else revision,
                confirm_empty=confirm_empty,
                author=author,
            )
            if context.about_id:
                drafts.record_canvas_change(
                    agent, before=now.revision, after=done.revision, author=author
                )
        return _told(agent, done)


def _told(agent: Agent, drawn: CanvasState) -> str:
    graph = drawn.graph
    nodes, edges = len(graph.nodes), len(graph.edges)
    size = f"{nodes} node{pluralize(nodes)}, {edges} edge{pluralize(edges)}"
    lines = [f"The draft is revision {drawn.revision}: {size}."]
    complaints = validate(graph, tools=tools_of_workspace(agent.workspace_id))
    for one in complaints[:SHOWN_COMPLAINTS]:
        lines.append(f"{one.level}: {f'{one.node}: ' if one.node else ''}{one.message}")
    if len(complaints) > SHOWN_COMPLAINTS:
        lines.append(f"[… and {len(complaints) - SHOWN_COMPLAINTS} more]")
    return "\n".join(lines)


def _known(ids: Any) -> str:
    found = list(ids)[:50]
    return f"There are {', '.join(found)}." if found else "The canvas is empty."


@contextmanager
def _complaints() -> Iterator[None]:
    """Turn errors into messages that a model can act on."""
    try:
        yield
    except CanvasConflict as fault:
        newer: Any = fault.extra["current"]
        raise ToolFailed(
            f"{fault.detail} The draft is revision {newer['revision']}: "
            f"nodes {newer['nodes']}, edges {newer['edges']}."
        ) from fault
    except (ToolFailed, StaleEpoch):
        raise
    except Fault as fault:
        raise ToolFailed(fault.detail) from fault
