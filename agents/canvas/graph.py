"""The graph of a canvas: its nodes and edges as they are received, and what keeps it from running."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    Field,
    ValidationError,
    model_validator,
)

from agents.canvas.expressions import is_input, node_in, parse, paths_in
from agents.canvas.start_form import form_fault
from core.exceptions import Invalid
from core.plugins import add, check_callable, check_new, is_subclass, refuse
from core.validation import STORABLE, Input, is_storable

MOST_NODES = 1_000
MOST_EDGES = 3_000
MOST_BYTES = 1024 * 1024
FARTHEST = 1_000_000.0

NodeId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]
Short = Annotated[str, Field(max_length=120), STORABLE]
Coordinate = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """Accept only what JSON can express and PostgreSQL can store."""
    try:
        text = json.dumps(config, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError("config must be a JSON object.") from None
    if not is_storable(text) or "\\u0000" in text:
        raise ValueError("Text cannot hold the character NUL or half of a surrogate pair.")
    return config


class Position(Input):
    x: Coordinate = 0.0
    y: Coordinate = 0.0


class Pin(Input):
    """An output that test runs use in place of running the node."""

    output: Any = None

    @model_validator(mode="after")
    def _is_storable(self) -> Self:
        _plain({"output": self.output})
        return self


class Node(Input):
    """One step, or a note for people. `validate` checks its `config`."""

    id: NodeId
    type: Annotated[str, Field(min_length=1, max_length=40), STORABLE]
    # Other graph editors call these two `label` and `data`.
    name: Annotated[Short, Field(validation_alias=AliasChoices("name", "label"))] = ""
    config: Annotated[
        dict[str, Any],
        AfterValidator(_plain),
        Field(validation_alias=AliasChoices("config", "data")),
    ] = {}
    position: Position = Position()
    pin: Annotated[Pin | None, Field(exclude_if=lambda pin: pin is None)] = None


class Edge(Input):
    """An edge between two nodes. Edges out of a condition have the handle `true` or `false`."""

    #: Accepted from editors that send one, and not stored: ends and handle identify an edge.
    id: Annotated[str, Field(max_length=120, exclude=True)] = ""
    source: NodeId
    target: NodeId
    handle: Annotated[str, Field(max_length=40), STORABLE] = ""
    label: Short = ""


class Graph(Input):
    nodes: Annotated[list[Node], Field(max_length=MOST_NODES)] = []
    edges: Annotated[list[Edge], Field(max_length=MOST_EDGES)] = []

    @model_validator(mode="after")
    def _is_storable(self) -> Self:
        twice = [
            name for name, count in Counter(node.id for node in self.nodes).items() if count > 1
        ]
        if twice:
            raise ValueError(f"Several nodes have the id {twice[0]!r}.")
        edges = Counter((edge.source, edge.target, edge.handle) for edge in self.edges)
        if any(count > 1 for count in edges.values()):
            raise ValueError("Two edges connect the same nodes by the same handle.")
        if len(self.model_dump_json().encode()) > MOST_BYTES:
            raise ValueError(f"A canvas has at most {MOST_BYTES:,} bytes.")
        return self

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not self.edges


# ── Validation ───────────────────────────────────────────────────────────────

#: The templates in the configuration of each type of node.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "agent": ("prompt",),
    "tool": ("input",),
    "code": ("data",),
    "http": ("url", "headers", "body"),
    "loop": ("items",),
    "approval": ("message",),
    "sub_agent": ("prompt",),
    "workflow": ("params",),
    "output": ("value",),
}


def _template_errors(graph: Graph, before: _Before) -> Iterator[tuple[Node, str, str]]:
    """Yield a node, a code and a message per error."""
    ids = {node.id for node in graph.nodes}
    for node in graph.nodes:
        config = node.config
        if node.type == "condition" and isinstance(config.get("expression"), str):
            try:
                paths = list(parse(config["expression"]).paths)
            except Invalid as fault:
                if config["expression"].strip():
                    yield node, "wrong_expression", fault.detail
                continue
        else:
            paths = list(_templates_of(node))
        paths = [path for path in dict.fromkeys(paths) if not _names_no_node(node, path)]
        if paths:
            yield from _bad_references(node, paths, ids, before[node.id])
        yield from _wrong_types(node, config)


def _templates_of(node: Node) -> Iterator[str]:
    """Yield the paths in the templates of a node, except those to the item of a loop."""
    names = node.config if node.type in NODE_TYPES else TEMPLATES.get(node.type, ())
    yield from paths_in([node.config.get(name) for name in names])
    if node.type == "loop" and (body := body_of(node)):
        for path in paths_in([body.config.get(name) for name in TEMPLATES[body.type]]):
            if path.partition(".")[0] not in LOOP_PATHS:
                yield path


def _names_no_node(node: Node, path: str) -> bool:
    """Return whether a path names the input, or a secret that is filled in where a request leaves."""
    body = body_of(node) if node.type == "loop" else node
    may_hold_secrets = body is not None and body.type == "http"
    return is_input(path) or (may_hold_secrets and path.startswith(SECRET))


def _bad_references(
    node: Node, paths: list[str], ids: Collection[str], before: set[str]
) -> Iterator[tuple[Node, str, str]]:
    for path in paths:
        found = node_in(path, ids)
        if found is None:
            message = f"Unknown reference {path[:80]!r}. Use input.NAME or nodes.ID.output."
            yield node, "unknown_reference", message
        elif found not in before:
            yield node, "early_reference", f"{found} does not run before this node."


def _wrong_types(node: Node, config: Mapping[str, Any]) -> Iterator[tuple[Node, str, str]]:
    """Yield the values that must be a string or an object and are not."""
    texts = {"agent": ("prompt",), "sub_agent": ("agent", "prompt"), "approval": ("message",)}
    texts |= {"wait": ("event",), "condition": ("expression",), "code": ("code",)}
    texts |= {"http": ("url", "method"), "workflow": ("workflow", "agent"), "note": ("text",)}
    for name in texts.get(node.type, ()):
        if config.get(name) is not None and not isinstance(config[name], str):
            yield node, "wrong_config", f"{name} must be a string."
    objects = {"tool": "input", "http": "headers"}
    name = objects.get(node.type, "")
    if config.get(name) is not None and not isinstance(config[name], dict):
        yield node, "wrong_config", f"{name} must be an object."


TYPES = (
    *("trigger", "agent", "tool", "condition", "approval", "sub_agent", "wait", "output"),
    *("code", "http", "loop", "workflow", "note"),
)
#: What a loop can do for each item.
BODIES = ("agent", "sub_agent", "tool", "code", "http", "workflow")
#: What only the templates of a loop's body can name.
LOOP_PATHS = ("item", "index")
#: How a path to a secret of the vault begins.
SECRET = "vault:"  # noqa: S105 (the name of a path, not a secret)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """A type of node that a plugin brings."""

    name: str
    #: Validates the configuration after its templates are filled in.
    config: type[BaseModel]
    #: Called with the configuration and an `orchestrator.canvas.run.NodeRun`; returns the output.
    run: Callable[[Any, Any], Any]
    about: str = ""


NODE_TYPES: dict[str, NodeType] = {}


def register_node(
    name: str, run: Callable[[Any, Any], Any], *, config: type[BaseModel], about: str = ""
) -> None:
    """Add a type of node. Its code is replayed like that of a workflow."""
    check_new(NODE_TYPES, name, kind="node")
    if name in TYPES:
        refuse("node", f"the name {name!r} is taken.")
    check_callable(run, kind="node", what="run")
    if not is_subclass(config, BaseModel):
        refuse("node", f"the config of {name} must be a pydantic model, not {config!r}.")
    made = NodeType(name=name, config=config, run=run, about=about)
    add(NODE_TYPES, name, made, kind="node")


def node_types() -> list[str]:
    return [*TYPES, *NODE_TYPES]


#: What each type needs in its configuration: one of the names in each group.
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "agent": (("prompt",),),
    "tool": (("tool",),),
    "condition": (("expression",),),
    "approval": (("message",),),
    "sub_agent": (("agent",), ("prompt",)),
    "wait": (("seconds", "event"),),
    "code": (("code",),),
    "http": (("url",),),
    "loop": (("items",), ("body",)),
    "workflow": (("workflow",),),
}
#: How the words of a configuration read in a message for people.
WORDS = {
    "prompt": "a message",
    "tool": "a tool",
    "expression": "a condition",
    "message": "a question",
    "agent": "an agent",
    "seconds": "a time",
    "event": "an event",
    "code": "code",
    "url": "an address",
    "items": "a list",
    "body": "something to do for each item",
    "workflow": "a workflow",
}
CHOICES = ("true", "false")
#: Where an agent node answers: in a separate session, or in the one that the run shares.
CONVERSATIONS = ("own", "run")
LONGEST_WAIT = 365 * 86_400
LONGEST_CODE = 600

Level: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True)
class Issue:
    """One thing that is wrong with a graph. Without a node it concerns the whole graph."""

    code: str
    message: str
    node: str | None = None
    level: Level = "error"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def validate(graph: Graph, *, tools: Collection[str] | None = None) -> list[Issue]:
    """Return all issues, errors first. Tool names are checked only when `tools` is given."""
    found = [
        *_nodes(graph, tools),
        *_edges(graph),
        *_shape(graph),
        *_cycles(graph),
        *_unreachable(graph),
        *_texts(graph),
    ]
    return sorted(found, key=lambda issue: issue.level)


def errors_in(issues: Collection[Issue]) -> list[Issue]:
    return [issue for issue in issues if issue.level == "error"]


def _nodes(graph: Graph, tools: Collection[str] | None) -> Iterator[Issue]:
    for node in graph.nodes:
        if node.type in NODE_TYPES:
            yield from _plugin_config(node, NODE_TYPES[node.type].config)
            continue
        if node.type not in TYPES:
            yield _about(node, "unknown_type", f"{node.type!r} is not a type of node.")
            continue
        yield from _missing_config(node)
        yield from _details(node, tools)


def _missing_config(node: Node) -> Iterator[Issue]:
    for group in NEEDED.get(node.type, ()):
        if not any(_is_given(node.config.get(name)) for name in group):
            needed = " or ".join(f"{WORDS[name]} ({name})" for name in group)
            yield _about(node, "missing_config", f"This node needs {needed}.")


def _details(node: Node, tools: Collection[str] | None) -> Iterator[Issue]:
    """Yield configuration values that are not allowed."""
    name = node.config.get("tool")
    known = tools is None or (isinstance(name, str) and name in tools)
    if node.type == "tool" and _is_given(name) and not known:
        yield _about(node, "unknown_tool", f"No tool is named {str(name)[:80]!r}.")
    conversation = node.config.get("conversation")
    if node.type in ("agent", "sub_agent") and conversation not in (None, *CONVERSATIONS):
        yield _about(node, "wrong_config", "conversation must be own or run.")
    seconds = node.config.get("seconds")
    if node.type == "wait" and seconds is not None and not _is_duration(seconds):
        yield _about(node, "wrong_config", "seconds must be a number from 0 to one year.")
    if node.type == "code" and seconds is not None and not _is_within(seconds, LONGEST_CODE):
        yield _about(node, "wrong_config", f"seconds must be a number from 1 to {LONGEST_CODE}.")
    if node.type == "http" and node.config.get("method", "GET") not in METHODS:
        yield _about(node, "wrong_config", f"method must be one of {', '.join(METHODS)}.")
    if node.type == "loop":
        yield from _loop(node, tools)
    if node.type == "trigger" and (fault := form_fault(node.config.get("schema"))):
        yield _about(node, "wrong_config", fault)


def _loop(node: Node, tools: Collection[str] | None) -> Iterator[Issue]:
    """Yield what is wrong with the list of a loop, and with what it does for each item."""
    if node.config.get("on_error") not in (None, "stop", "continue"):
        yield _about(node, "wrong_config", "on_error must be stop or continue.")
    if node.config.get("body") is None:
        return
    body = body_of(node)
    if body is None:
        message = f"body must have a type ({', '.join(BODIES)}) and a config."
        yield _about(node, "wrong_config", message)
        return
    for issue in [*_missing_config(body), *_details(body, tools)]:
        yield replace(issue, message=f"For each item: {issue.message}")


def body_of(node: Node) -> Node | None:
    """Return what a loop does for each item as a node, or None if it is not valid."""
    body = node.config.get("body") if node.type == "loop" else None
    if not isinstance(body, dict) or body.get("type") not in BODIES:
        return None
    config = body.get("config", {})
    if not isinstance(config, dict):
        return None
    return Node(id=node.id, type=body["type"], name=node.name, config=config)


def _plugin_config(node: Node, model: type[BaseModel]) -> Iterator[Issue]:
    """Yield what is wrong with the configuration. A template may stand for any type of value."""
    try:
        model.model_validate(node.config)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = ".".join(str(part) for part in fault["loc"])
            is_template = bool(list(paths_in([fault.get("input")])))
            if fault["type"] == "missing":
                yield _about(node, "missing_config", f"A {node.type} node needs {name}.")
            elif not is_template:
                yield _about(node, "wrong_config", f"{name}: {fault['msg']}.")


def _is_given(value: object) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _is_duration(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= LONGEST_WAIT  # type: ignore[operator]


def _is_within(value: object, most: float) -> bool:
    return type(value) in (int, float) and 1 <= value <= most  # type: ignore[operator]


def _edges(graph: Graph) -> Iterator[Issue]:
    nodes = {node.id: node for node in graph.nodes}
    for edge in graph.edges:
        missing = [end for end in (edge.source, edge.target) if end not in nodes]
        if missing:
            near = next((end for end in (edge.source, edge.target) if end in nodes), None)
            message = f"An edge refers to the node {missing[0]!r}, which does not exist."
            yield Issue(code="edge_to_nowhere", message=message, node=near)
            continue
        yield from _ends(edge, nodes[edge.source], nodes[edge.target])


def _ends(edge: Edge, source: Node, target: Node) -> Iterator[Issue]:
    for node in (source, target):
        if node.type == "note":
            yield _about(node, "edge_of_note", "A comment cannot be connected.")
    if target.type == "trigger":
        yield _about(target, "edge_into_trigger", "An edge cannot lead into a trigger.")
    if source.type == "output":
        yield _about(source, "edge_out_of_output", "An edge cannot lead out of an output.")
    if source.type == "condition" and edge.handle not in CHOICES:
        message = "Edges out of a condition must have the handle true or false."
        yield _about(source, "wrong_handle", message)


def _shape(graph: Graph) -> Iterator[Issue]:
    triggers = [node for node in graph.nodes if node.type == "trigger"]
    if not triggers:
        yield Issue(code="no_trigger", message="The graph has no trigger. Add one to start from.")
    for node in triggers[1:]:
        yield _about(node, "second_trigger", "A graph can have only one trigger.")
    if not any(node.type == "output" for node in graph.nodes):
        message = "The graph has no output. Its last result is the answer."
        yield Issue(code="no_output", message=message, level="warning")
    handles = defaultdict(set)
    for edge in graph.edges:
        handles[edge.source].add(edge.handle)
    for node in graph.nodes:
        if node.type == "condition" and not set(CHOICES) <= handles[node.id]:
            message = "The true or the false branch leads nowhere."
            yield _about(node, "open_choice", message, level="warning")


def _cycles(graph: Graph) -> Iterator[Issue]:
    """Report the nodes of each cycle, after removing all nodes without incoming edges repeatedly."""
    following, incoming = _following(graph), {node.id: 0 for node in graph.nodes}
    names = {node.id: node.name or node.id for node in graph.nodes}
    for targets in following.values():
        for target in targets:
            incoming[target] += 1
    free = [name for name, count in incoming.items() if not count]
    while free:
        for target in following[free.pop()]:
            incoming[target] -= 1
            if not incoming[target]:
                free.append(target)
    # Nodes that only follow a cycle remain as well; they are not part of one.
    left = {name for name, count in incoming.items() if count}
    for node in graph.nodes:
        if node.id in left and node.id in _reached(following, following[node.id]):
            cycle = " → ".join(names[one] for one in _cycle_through(node.id, following))
            message = f"This node is part of a cycle: {cycle}. Remove one of these edges."
            yield _about(node, "cycle", message)


def _unreachable(graph: Graph) -> Iterator[Issue]:
    starts = [node.id for node in graph.nodes if node.type == "trigger"]
    if not starts:
        return
    seen = _reached(_following(graph), starts)
    for node in graph.nodes:
        if node.id not in seen and node.type != "note":
            yield _about(node, "unreachable", "No path leads here from the trigger.")


def _texts(graph: Graph) -> Iterator[Issue]:
    for node, code, message in _template_errors(graph, _Before(graph)):
        yield _about(node, code, message)


class _Before:
    """Finds the nodes that precede a node, when a template of the node refers to another."""

    def __init__(self, graph: Graph) -> None:
        self._preceding: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
        for source, targets in _following(graph).items():
            for target in targets:
                self._preceding[target].append(source)

    def __getitem__(self, node: str) -> set[str]:
        return _reached(self._preceding, self._preceding[node])


def _following(graph: Graph) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        if edge.source in following and edge.target in following:
            following[edge.source].append(edge.target)
    return following


def _cycle_through(start: str, following: dict[str, list[str]]) -> list[str]:
    """Return the shortest cycle through a node, which is its first and its last."""
    came_from: dict[str, str] = {}
    waiting = [start]
    while waiting:
        current = waiting.pop(0)
        for target in following[current]:
            if target == start:
                path = [current]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return [*reversed(path), start]
            if target not in came_from:
                came_from[target] = current
                waiting.append(target)
    raise AssertionError("the node is part of a cycle")


def _reached(following: dict[str, list[str]], starts: Collection[str]) -> set[str]:
    seen, waiting = set(starts), list(starts)
    while waiting:
        for target in following[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def _about(node: Node, code: str, message: str, *, level: Level = "error") -> Issue:
    return Issue(code=code, message=message, node=node.id, level=level)
