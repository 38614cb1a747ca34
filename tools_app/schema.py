"""Turns a pydantic model into the plain JSON Schema that every model vendor accepts."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel

from agents.providers.base import JSON

#: What Gemini and OpenAI both understand. Whatever else a model declares still binds its parsing.
KEPT = frozenset(
    {"type", "description", "enum", "minimum", "maximum", "minItems", "maxItems", "required"}
)
#: Parts of one schema, written out in full, and how deep they lie.
MOST_PARTS = 5_000
DEEPEST = 12


@cache
def schema_of(model: type[BaseModel]) -> JSON:
    """The model's schema without titles and with every reference replaced by what it names.

    It is made once and shared by all callers, who leave it as it is.
    """
    return plain_schema(model.model_json_schema())


def plain_schema(raw: JSON) -> JSON:
    """A schema of an object in the words that every vendor understands."""
    definitions = {**raw.get("definitions", {}), **raw.get("$defs", {})}
    return {"type": "object", "properties": {}, **_Cleaner(definitions).clean(raw)}


class _Cleaner:
    """Writes one schema out in full, as far as that stays of a sane size.

    A few definitions that refer to each other many times over would unfold into millions of parts.
    """

    def __init__(self, definitions: JSON) -> None:
        self._definitions = definitions
        self._left = MOST_PARTS

    def clean(self, node: JSON, depth: int = 0) -> JSON:
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            raise TypeError("A tool's arguments must not refer to themselves, nor unfold for ever.")
        node = self._resolved(node)
        clean: JSON = {key: value for key, value in node.items() if key in KEPT}
        if "const" in node:
            clean["enum"] = [node["const"]]
        if "properties" in node:
            clean["properties"] = {
                name: self.clean(part, depth + 1) for name, part in node["properties"].items()
            }
        if isinstance(node.get("items"), dict):
            clean["items"] = self.clean(node["items"], depth + 1)
        if isinstance(extra := node.get("additionalProperties"), bool):
            clean["additionalProperties"] = extra
        elif isinstance(extra, dict):
            clean["additionalProperties"] = self.clean(extra, depth + 1)
        if choices := node.get("anyOf") or node.get("oneOf"):
            clean["anyOf"] = [self.clean(choice, depth + 1) for choice in choices]
        return clean

    def _resolved(self, node: JSON, hops: int = 0) -> JSON:
        """Follow `$ref`, and read `X or null` as X: what may be null may as well be left out."""
        if hops > DEEPEST:
            raise TypeError("A tool's arguments must not refer to themselves.")
        if "$ref" in node:
            target = self._definitions[node["$ref"].rpartition("/")[2]]
            return self._resolved({**target, **_without(node, "$ref")}, hops + 1)
        choices = [choice for choice in node.get("anyOf", []) if choice.get("type") != "null"]
        if len(choices) == 1:
            return self._resolved({**choices[0], **_without(node, "anyOf")}, hops + 1)
        if choices:
            return {**node, "anyOf": choices}
        return node


def _without(node: JSON, key: str) -> JSON:
    return {name: value for name, value in node.items() if name != key}
