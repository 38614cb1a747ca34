"""Judges a graph: everything that would keep it from running, tied to the node it is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from agents.canvas_references import wrong_texts
from agents.graph import Edge, Graph, Node

TYPES = ("trigger", "agent", "tool", "condition", "approval", "sub_agent", "wait", "output")
#: What each type cannot do without: one of the names in each group.
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "agent": (("prompt",),),
    "tool": (("tool",),),
    "condition": (("expression",),),
    "approval": (("message",),),
    "sub_agent": (("agent",), ("prompt",)),
    "wait": (("seconds", "event"),),
}
CHOICES = ("true", "false")
#: Where an agent answers: by itself, or where the run's other nodes of this agent talk.
CONVERSATIONS = ("own", "run")
LONGEST_WAIT = 365 * 86_400

Level: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """One thing that is wrong. Without a node it is about the whole graph."""

    code: str
    message: str
    node: str | None = None
    level: Level = "error"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def check(graph: Graph, *, tools: Collection[str] | None = None) -> list[Complaint]:
    """All complaints, errors first. Tools are looked at only when the known ones are given."""
    found = [
        *_nodes(graph, tools),
        *_edges(graph),
        *_shape(graph),
        *_cycles(graph),
        *_unreachable(graph),
        *_texts(graph),
    ]
    return sorted(found, key=lambda one: one.level)


def errors_in(complaints: Collection[Complaint]) -> list[Complaint]:
    return [one for one in complaints if one.level == "error"]


def _nodes(graph: Graph, tools: Collection[str] | None) -> Iterator[Complaint]:
    for node in graph.nodes:
        if node.type not in TYPES:
            yield _about(node, "unknown_type", f"{node.type!r} is no type of node.")
            continue
        for group in NEEDED.get(node.type, ()):
            if not any(_is_given(node.config.get(name)) for name in group):
                words = " or ".join(group)
                yield _about(node, "missing_config", f"A {node.type} needs {words}.")
        yield from _details(node, tools)


def _details(node: Node, tools: Collection[str] | None) -> Iterator[Complaint]:
    """What is there, and cannot be."""
    name = node.config.get("tool")
    known = tools is None or (isinstance(name, str) and name in tools)
    if node.type == "tool" and _is_given(name) and not known:
        yield _about(node, "unknown_tool", f"No tool is named {str(name)[:80]!r}.")
    conversation = node.config.get("conversation")
    if node.type in ("agent", "sub_agent") and conversation not in (None, *CONVERSATIONS):
        yield _about(node, "wrong_config", "conversation is own or run.")
    seconds = node.config.get("seconds")
    if node.type == "wait" and seconds is not None and not _is_span(seconds):
        yield _about(node, "wrong_config", "seconds is a number from 0 to a year.")


def _is_given(value: object) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _is_span(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= LONGEST_WAIT  # type: ignore[operator]


def _edges(graph: Graph) -> Iterator[Complaint]:
    nodes = {node.id: node for node in graph.nodes}
    for edge in graph.edges:
        missing = [end for end in (edge.source, edge.target) if end not in nodes]
        if missing:
            near = next((end for end in (edge.source, edge.target) if end in nodes), None)
            said = f"An edge leads to or from {missing[0]!r}, which is not there."
            yield Complaint(code="edge_to_nowhere", message=said, node=near)
            continue
        yield from _ends(edge, nodes[edge.source], nodes[edge.target])


def _ends(edge: Edge, source: Node, target: Node) -> Iterator[Complaint]:
    if target.type == "trigger":
        yield _about(target, "edge_into_trigger", "Nothing comes before a trigger.")
    if source.type == "output":
        yield _about(source, "edge_out_of_output", "Nothing comes after an output.")
    if source.type == "condition" and edge.handle not in CHOICES:
        yield _about(source, "wrong_handle", "A condition's edges are true or false.")


def _shape(graph: Graph) -> Iterator[Complaint]:
    triggers = [node for node in graph.nodes if node.type == "trigger"]
    if not triggers:
        yield Complaint(code="no_trigger", message="The graph has no trigger to begin with.")
    for node in triggers[1:]:
        yield _about(node, "second_trigger", "A graph has one trigger.")
    if not any(node.type == "output" for node in graph.nodes):
        said = "The graph has no output: its last result is the answer."
        yield Complaint(code="no_output", message=said, level="warning")
    handles = defaultdict(set)
    for edge in graph.edges:
        handles[edge.source].add(edge.handle)
    for node in graph.nodes:
        if node.type == "condition" and not set(CHOICES) <= handles[node.id]:
            yield _about(node, "open_choice", "One of its choices leads nowhere.", level="warning")


def _cycles(graph: Graph) -> Iterator[Complaint]:
    """Nodes that are left when all that nothing leads to are taken away, again and again."""
    following, incoming = _following(graph), {node.id: 0 for node in graph.nodes}
    for targets in following.values():
        for target in targets:
            incoming[target] += 1
    free = [name for name, count in incoming.items() if not count]
    while free:
        for target in following[free.pop()]:
            incoming[target] -= 1
            if not incoming[target]:
                free.append(target)
    # What only follows a cycle is left as well; it is not part of one.
    left = {name for name, count in incoming.items() if count}
    for node in graph.nodes:
        if node.id in left and node.id in _reached(following, following[node.id]):
            yield _about(node, "cycle", "It comes after itself.")


def _unreachable(graph: Graph) -> Iterator[Complaint]:
    starts = [node.id for node in graph.nodes if node.type == "trigger"]
    if not starts:
        return
    seen = _reached(_following(graph), starts)
    for node in graph.nodes:
        if node.id not in seen:
            yield _about(node, "unreachable", "No way leads here from the trigger.")


def _texts(graph: Graph) -> Iterator[Complaint]:
    following = _following(graph)
    before: dict[str, set[str]] = defaultdict(set)
    for node in graph.nodes:
        for later in _reached(following, following[node.id]):
            before[later].add(node.id)
    for node, code, message in wrong_texts(graph, before):
        yield _about(node, code, message)


def _following(graph: Graph) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        if edge.source in following and edge.target in following:
            following[edge.source].append(edge.target)
    return following


def _reached(following: dict[str, list[str]], starts: Collection[str]) -> set[str]:
    seen, waiting = set(starts), list(starts)
    while waiting:
        for target in following[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def _about(node: Node, code: str, message: str, *, level: Level = "error") -> Complaint:
    return Complaint(code=code, message=message, node=node.id, level=level)


#: Answers with the names of the tools that agents of a workspace may be given.
KnownTools: TypeAlias = Callable[[Any], Collection[str]]
_known: list[KnownTools] = []


def provide_tools(known: KnownTools) -> None:
    """Called by the app of tools, which lies to the right of this one."""
    _known[:] = [known]


def known_tools(workspace_id: object) -> Collection[str] | None:
    return _known[0](workspace_id) if _known else None
