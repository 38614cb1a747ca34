"""Tests that a schema from outside cannot keep a worker busy."""

from __future__ import annotations

from typing import Any

import pytest

from tools_app.exceptions import ToolFailed
from tools_app.schemas import check_arguments, check_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def doubling(levels: int) -> dict[str, Any]:
    """Return a schema in which each level refers to the next one twice."""
    parts = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {
        "type": "object",
        "$defs": {**parts, f"d{levels}": {}},
        "allOf": [{"$ref": "#/$defs/d0"}],
    }


def nested(levels: int) -> dict[str, Any]:
    """Return a schema in which `unevaluatedProperties` makes each level evaluate all below it."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "allOf": [schema], "unevaluatedProperties": {}}
    return schema


def deep_negation(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return {"type": "object", "not": schema}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (doubling(60), "is too complex"),
        (
            {"type": "object", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "not": {"$ref": "#/$defs/a"}},
            "refers to itself",
        ),
        (deep_negation(400), "nested too deeply"),
        ({"type": "object", "not": {"$ref": "#/$defs/nowhere"}}, "refers to itself"),
        ({"type": "object", "not": {"$ref": "#/type"}}, "a part of it is not an object"),
        ({"type": "object", "allOf": [{}] * 10_000}, "1,500 objects"),
    ],
    ids=["doubling", "circular", "nested-too-deeply", "dangling-ref", "not-an-object", "too-many"],
)  # fmt: skip
def test_a_schema_that_cannot_be_resolved_is_refused(schema, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_schema(schema)


@pytest.mark.parametrize(
    "pattern", ["a{99999999999999}", "(" * 3_000 + ")" * 3_000], ids=["overflow", "deep"]
)
def test_patterns_are_not_evaluated(pattern):
    schema = {"type": "object", "properties": {"a": {"pattern": pattern}}}

    check_schema(schema)
    check_arguments("t", schema, {"a": "b"})


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        # Python's regular expressions would need exponential time for this.
        (
            {"type": "object", "properties": {"a": {"$schema": DRAFT_7, "pattern": "^(a+)+$"}}},
            {"a": "a" * 200 + "b"},
        ),
        (nested(40), {}),
        (
            {"type": "object", "properties": {"a": {"uniqueItems": True}}},
            {"a": [{"n": n} for n in range(30_000)]},
        ),
    ],
    ids=["another-draft", "unevaluated", "unique"],
)
def test_expensive_keywords_are_not_evaluated(schema, arguments):
    check_schema(schema)
    check_arguments("t", schema, arguments)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        # Only arguments expand it, so the schema itself is accepted.
        (
            {"type": "object", "$defs": doubling(60)["$defs"], "additionalProperties": {"not": {"$ref": "#/$defs/d0"}}},
            {"a": 1},
        ),
        (
            {"type": "object", "additionalProperties": {"items": {"enum": list(range(5_000))}}},
            {"a": [-1] * 5_000},
        ),
        ({"type": "object", "additionalProperties": {"multipleOf": 0.1}}, {"a": float("inf")}),
    ],
    ids=["doubling", "long-enum", "infinite-number"],
)  # fmt: skip
def test_arguments_that_take_too_long_to_validate_are_refused(schema, arguments):
    check_schema(schema)

    with pytest.raises(ToolFailed, match="cannot be checked with its schema"):
        check_arguments("t", schema, arguments)


def test_a_schema_can_name_its_draft():
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"type": "string"}}}

    check_schema(schema)
    with pytest.raises(ToolFailed, match="1 is not of type 'string'"):
        check_arguments("t", schema, {"a": 1})


def test_every_row_of_long_arguments_is_validated():
    row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}

    check_arguments("t", schema, {"rows": [{"n": 1}] * 5_000})
    with pytest.raises(ToolFailed, match=r"rows\.5000: 'n' is a required property"):
        check_arguments("t", schema, {"rows": [*([{"n": 1}] * 5_000), {}]})
