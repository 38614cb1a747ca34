"""Lays out a graph for display: layers from left to right, with curves between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from agents.canvas.graph import Graph

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 176, 60, 56, 24, 12
NAME_LENGTH = 22


@dataclass(frozen=True, kw_only=True)
class Box:
    """One node as it is drawn."""

    id: str
    type: str
    name: str
    x: int
    y: int

    @property
    def short(self) -> str:
        return self.name if len(self.name) <= NAME_LENGTH else f"{self.name[: NAME_LENGTH - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One edge as it is drawn, with its SVG path."""

    path: str
    label: str
    x: int
    y: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    boxes: list[Box]
    curves: list[Curve]
    width: int
    height: int


def lay_out(graph: Graph) -> Layout:
    """Place each node one layer after the last node that leads to it."""
    layers: defaultdict[int, list[str]] = defaultdict(list)
    for name, depth in _depths(graph).items():
        layers[depth].append(name)
    tallest = max((len(names) for names in layers.values()), default=0)
    places: dict[str, tuple[int, int]] = {}
    for depth, names in layers.items():
        lead = (tallest - len(names)) * (HEIGHT + GAP_Y) // 2
        for row, name in enumerate(names):
            x = MARGIN + depth * (WIDTH + GAP_X)
            places[name] = (x, MARGIN + lead + row * (HEIGHT + GAP_Y))
    boxes = [
        Box(id=n.id, type=n.type, name=n.name or n.id, x=places[n.id][0], y=places[n.id][1])
        for n in graph.nodes
    ]
    return Layout(
        boxes=boxes,
        curves=_curves(graph, places),
        width=2 * MARGIN + len(layers) * (WIDTH + GAP_X) - GAP_X,
        height=2 * MARGIN + tallest * (HEIGHT + GAP_Y) - GAP_Y,
    )


def _depths(graph: Graph) -> dict[str, int]:
    """Return how far each node is from a start. Cycles are cut."""
    depths = {node.id: 0 for node in graph.nodes}
    edges = [edge for edge in graph.edges if edge.source in depths and edge.target in depths]
    for _ in range(len(depths)):
        moved = False
        for edge in edges:
            deeper = depths[edge.source] + 1
            if depths[edge.target] < deeper < len(depths):
                depths[edge.target], moved = deeper, True
        if not moved:
            break
    return _without_gaps(depths)


def _without_gaps(depths: dict[str, int]) -> dict[str, int]:
    used = {depth: place for place, depth in enumerate(sorted(set(depths.values())))}
    return {name: used[depth] for name, depth in depths.items()}


def _curves(graph: Graph, places: dict[str, tuple[int, int]]) -> list[Curve]:
    curves = []
    for edge in graph.edges:
        if edge.source not in places or edge.target not in places:
            continue
        x1, y1 = places[edge.source][0] + WIDTH, places[edge.source][1] + HEIGHT // 2
        x2, y2 = places[edge.target][0], places[edge.target][1] + HEIGHT // 2
        bend = max(GAP_X // 2, abs(x2 - x1) // 2)
        path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
        label = edge.label or edge.handle
        curves.append(Curve(path=path, label=label, x=(x1 + x2) // 2, y=(y1 + y2) // 2 - 6))
    return curves
