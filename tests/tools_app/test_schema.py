"""Tests that tool schemas use only what every vendor supports."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from tools_app.registry import registry
from tools_app.schemas import schema_of

SUPPORTED_KEYWORDS = {
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "properties",
    "required",
    "type",
}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    title: str | None = Field(default=None, description="What to call it.")


class Drawing(BaseModel):
    points: list[Point] = Field(min_length=1)
    colour: Colour = Colour.RED
    kind: Literal["one"] = "one"
    size: int | str = 1
    labels: dict[str, Point] = {}


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for part in schema.get("properties", {}).values():
        yield from nodes(part)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])
    for part in schema.get("anyOf", []):
        yield from nodes(part)


@pytest.mark.parametrize("name", sorted(registry))
def test_every_tool_has_a_plain_schema_and_a_description(name):
    spec = registry[name].spec

    assert spec.name == name
    assert spec.description
    assert spec.json_schema["type"] == "object"
    for node in nodes(spec.json_schema):
        assert set(node) <= SUPPORTED_KEYWORDS
    for part in spec.json_schema["properties"].values():
        assert part["description"]


def test_references_are_replaced_by_their_definitions():
    point = {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "title": {"type": "string", "description": "What to call it."},
        },
        "required": ["x"],
    }
    assert schema_of(Drawing) == {
        "type": "object",
        "properties": {
            "points": {"type": "array", "minItems": 1, "items": point},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "kind": {"type": "string", "enum": ["one"]},
            "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "labels": {"type": "object", "additionalProperties": point},
        },
        "required": ["points"],
    }


def test_a_model_without_fields_is_still_an_object():
    class Nothing(BaseModel):
        pass

    assert schema_of(Nothing) == {"type": "object", "properties": {}}


def test_arguments_that_refer_to_themselves_are_refused():
    class Tree(BaseModel):
        branches: list[Tree]

    with pytest.raises(TypeError, match="refers to itself"):
        schema_of(Tree)
