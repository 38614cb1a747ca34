"""Judges the texts of a graph: conditions that cannot be read, and names of what is never known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.canvas_expressions import parse
from agents.canvas_paths import is_input, node_in
from agents.canvas_templates import paths_in
from agents.graph import Graph, Node
from config.faults import Invalid

#: Which parts of a node's configuration are templates.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "agent": ("prompt",),
    "tool": ("input",),
    "approval": ("message",),
    "sub_agent": ("prompt",),
    "output": ("value",),
}


def wrong_texts(graph: Graph, before: Mapping[str, set[str]]) -> Iterator[tuple[Node, str, str]]:
    """A node, a code and words for each. `before` says what comes before each node."""
    for node in graph.nodes:
        config = node.config
        if node.type == "condition" and isinstance(config.get("expression"), str):
            try:
                named = list(parse(config["expression"]).paths)
            except Invalid as fault:
                if config["expression"].strip():
                    yield node, "wrong_expression", fault.detail
                continue
        else:
            named = list(paths_in([config.get(name) for name in TEMPLATES.get(node.type, ())]))
        yield from _unknown(node, named, graph, before.get(node.id, set()))
        yield from _unfit(node, config)


def _unknown(
    node: Node, named: list[str], graph: Graph, before: set[str]
) -> Iterator[tuple[Node, str, str]]:
    ids = {one.id for one in graph.nodes}
    for path in dict.fromkeys(named):
        if is_input(path):
            continue
        found = node_in(path, ids)
        if found is None:
            said = f"{path[:80]!r} is nothing that is known: write input.NAME or nodes.ID.output."
            yield node, "unknown_reference", said
        elif found not in before:
            yield node, "early_reference", f"{found} does not come before this node."


def _unfit(node: Node, config: Mapping[str, Any]) -> Iterator[tuple[Node, str, str]]:
    """What must be a text or an object, and is not."""
    texts = {"agent": ("prompt",), "sub_agent": ("agent", "prompt"), "approval": ("message",)}
    texts |= {"wait": ("event",), "condition": ("expression",)}
    for name in texts.get(node.type, ()):
        if config.get(name) is not None and not isinstance(config[name], str):
            yield node, "wrong_config", f"{name} is a text."
    given = config.get("input")
    if node.type == "tool" and given is not None and not isinstance(given, dict):
        yield node, "wrong_config", "input is an object."
