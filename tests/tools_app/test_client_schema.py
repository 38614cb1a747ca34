"""No schema from outside keeps a worker busy, whatever it asks to be judged by."""

from __future__ import annotations

from typing import Any

import pytest

from tools_app.exceptions import ToolFailed
from tools_app.schemas import check_arguments, check_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def doubling(levels: int) -> dict[str, Any]:
    """Each level names the next one twice."""
    parts = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {
        "type": "object",
        "$defs": {**parts, f"d{levels}": {}},
        "allOf": [{"$ref": "#/$defs/d0"}],
    }


def nested(levels: int) -> dict[str, Any]:
    """To know what a level has not looked at, all below it is looked at again."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "allOf": [schema], "unevaluatedProperties": {}}
    return schema


def buried(levels: int) -> dict[str, Any]:
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
        (buried(400), "nested too deeply"),
        ({"type": "object", "not": {"$ref": "#/$defs/nowhere"}}, "refers to itself"),
        ({"type": "object", "not": {"$ref": "#/type"}}, "a part of it is not an object"),
        ({"type": "object", "allOf": [{}] * 10_000}, "1,500 objects"),
    ],
    ids=["doubling", "circular", "buried", "nowhere", "no-object", "many"],
)  # fmt: skip
def test_a_schema_that_cannot_be_followed_is_refused(schema, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_schema(schema)


@pytest.mark.parametrize(
    "pattern", ["a{99999999999999}", "(" * 3_000 + ")" * 3_000], ids=["overflow", "deep"]
)
def test_a_pattern_is_never_read(pattern):
    schema = {"type": "object", "properties": {"a": {"pattern": pattern}}}

    check_schema(schema)
    check_arguments("t", schema, {"a": "b"})


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        # By Python's regular expressions this would take longer than the universe has.
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
def test_what_takes_long_by_its_nature_is_not_read(schema, arguments):
    check_schema(schema)
    check_arguments("t", schema, arguments)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        # Only arguments unfold it: nothing is wrong with it as long as there are none.
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
    ids=["doubling", "long-choice", "endless-number"],
)  # fmt: skip
def test_arguments_that_take_too_long_to_judge_are_refused(schema, arguments):
    check_schema(schema)

    with pytest.raises(ToolFailed, match="cannot be checked with its schema"):
        check_arguments("t", schema, arguments)


def test_a_schema_may_name_the_draft_it_was_written_in():
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"type": "string"}}}

    check_schema(schema)
    with pytest.raises(ToolFailed, match="1 is not of type 'string'"):
        check_arguments("t", schema, {"a": 1})


def test_arguments_of_many_rows_are_judged_to_the_last():
    row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}

    check_arguments("t", schema, {"rows": [{"n": 1}] * 5_000})
    with pytest.raises(ToolFailed, match=r"rows\.5000: 'n' is a required property"):
        check_arguments("t", schema, {"rows": [*([{"n": 1}] * 5_000), {}]})
