"""The graph of a canvas as it is received: nodes and edges, bounded but not yet validated."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from core.validation import STORABLE, Input, is_storable

MOST_NODES = 200
MOST_EDGES = 500
MOST_BYTES = 256 * 1024
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


class Node(Input):
    """One step. `agents.canvas.validation` checks its `config`."""

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
