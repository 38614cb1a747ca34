"""Turns a pydantic model into the plain JSON Schema that every model vendor accepts."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

from agents.providers.base import JSON

#: What Gemini and OpenAI both understand. Whatever else a model declares still binds its parsing.
KEPT = frozenset(
    {"type", "description", "enum", "minimum", "maximum", "minItems", "maxItems", "required"}
)


@cache
def schema_of(model: type[BaseModel]) -> JSON:
    """The model's schema without titles and with every reference replaced by what it names.

    It is made once and shared by all callers, who leave it as it is.
    """
    return plain_schema(model.model_json_schema())


def plain_schema(raw: JSON) -> JSON:
    """A schema of an object in the words that every vendor understands."""
    definitions = {**raw.get("definitions", {}), **raw.get("$defs", {})}
    return {"type": "object", "properties": {}, **_clean(raw, definitions, depth=0)}


def _clean(node: JSON, definitions: JSON, *, depth: int) -> JSON:
    if depth > 12:
        raise TypeError("A tool's arguments must not refer to themselves.")
    node = _resolved(node, definitions)
    below: dict[str, Any] = {"definitions": definitions, "depth": depth + 1}
    clean: JSON = {key: value for key, value in node.items() if key in KEPT}
    if "const" in node:
        clean["enum"] = [node["const"]]
    if "properties" in node:
        clean["properties"] = {
            name: _clean(part, **below) for name, part in node["properties"].items()
        }
    if isinstance(node.get("items"), dict):
        clean["items"] = _clean(node["items"], **below)
    if isinstance(extra := node.get("additionalProperties"), bool):
        clean["additionalProperties"] = extra
    elif isinstance(extra, dict):
        clean["additionalProperties"] = _clean(extra, **below)
    if choices := node.get("anyOf") or node.get("oneOf"):
        clean["anyOf"] = [_clean(choice, **below) for choice in choices]
    return clean


def _resolved(node: JSON, definitions: JSON) -> JSON:
    """Follow `$ref`, and read `X or null` as X: what may be null may as well be left out."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _resolved({**target, **_without(node, "$ref")}, definitions)
    choices = [choice for choice in node.get("anyOf", []) if choice.get("type") != "null"]
    if len(choices) == 1:
        return _resolved({**choices[0], **_without(node, "anyOf")}, definitions)
    if choices:
        return {**node, "anyOf": choices}
    return node


def _without(node: JSON, key: str) -> JSON:
    return {name: value for name, value in node.items() if name != key}
