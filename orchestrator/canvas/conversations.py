"""Which nodes of a canvas talk in a conversation of their own, and which in the run's.

Nodes of one agent that follow one another talk in one conversation and see the same files. Those
that may run side by side have one each: none waits for another, or hears what it was asked.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from agents.canvas_check import CONVERSATIONS
from agents.graph import Graph, Node

OWN, _ = CONVERSATIONS


def nodes_apart(graph: Graph) -> frozenset[str]:
    """The nodes with a conversation of their own: by their place, or because they say so."""
    apart = {node.id for node in graph.nodes if node.config.get("conversation") == OWN}
    free = [
        node
        for node in graph.nodes
        if node.type in ("agent", "sub_agent") and node.config.get("conversation") is None
    ]
    by_agent: dict[str, list[Node]] = defaultdict(list)
    for node in free:
        whose = str(node.config.get("agent")) if node.type == "sub_agent" else ""
        by_agent[whose].append(node)
    if any(len(nodes) > 1 for nodes in by_agent.values()):
        ways = Ways(graph)
        for nodes in by_agent.values():
            for one, other in combinations(nodes, 2):
                if ways.are_side_by_side(one.id, other.id):
                    apart |= {one.id, other.id}
    return frozenset(apart)


class Ways:
    """What can be reached from where, and which nodes one run can come to both."""

    def __init__(self, graph: Graph) -> None:
        self._ways: dict[str, list[tuple[str, str]]] = defaultdict(list)
        choices = {node.id for node in graph.nodes if node.type in ("condition", "approval")}
        for edge in graph.edges:
            outcome = _outcome(edge.handle) if edge.source in choices else ""
            self._ways[edge.source].append((edge.target, outcome))
        self._after = {node.id: self._reached([node.id]) for node in graph.nodes}
        starts = [node.id for node in graph.nodes if node.type == "trigger"]
        #: For each choice, what the run can come to by each of its outcomes.
        self._choices = [
            [
                self._reached(starts, choice, outcome)
                for outcome in sorted({word for _, word in self._ways[choice]})
            ]
            for choice in sorted(choices)
            if self._ways[choice]
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
            for target, outcome in self._ways[here]:
                is_open = here != choice or outcome == chosen
                if is_open and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen


def _outcome(handle: str) -> str:
    """A condition is true or false; of an approval every handle but one means yes."""
    return handle if handle in ("true", "false", "rejected") else "approved"
