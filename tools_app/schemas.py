"""The JSON Schemas of tools' arguments: written for models, and checked where they come from outside.

A few lines of a schema can demand more work than a machine can do, by regular expressions or by
parts that refer to each other. Keywords whose cost has no bound are not evaluated, and the
evaluation of all others is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache, wraps
from typing import Any

import orjson
from jsonschema import Draft202012Validator, exceptions  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from pydantic import BaseModel
from referencing import Registry
from referencing.exceptions import Unresolvable

from agents.providers.base import JSON
from tools_app.exceptions import ToolFailed

#: The keywords that Gemini and OpenAI both accept. Other constraints of a model apply when parsing.
KEPT = frozenset(
    {"type", "description", "enum", "minimum", "maximum", "minItems", "maxItems", "required"}
)
#: The size and the depth of a schema with all references replaced.
MOST_PARTS = 5_000
DEEPEST = 12


@cache
def schema_of(model: type[BaseModel]) -> JSON:
    """Return the model's schema without titles, with all references replaced.

    It is made once. Callers share it and must not change it.
    """
    return portable_schema(model.model_json_schema())


def portable_schema(raw: JSON) -> JSON:
    """Return the schema of an object, reduced to the keywords that every vendor accepts."""
    definitions = {**raw.get("definitions", {}), **raw.get("$defs", {})}
    return {"type": "object", "properties": {}, **_Cleaner(definitions).clean(raw)}


class _Cleaner:
    """Replaces the references of one schema within a size limit.

    A few definitions that refer to each other repeatedly would unfold into millions of parts.
    """

    def __init__(self, definitions: JSON) -> None:
        self._definitions = definitions
        self._left = MOST_PARTS

    def clean(self, node: JSON, depth: int = 0) -> JSON:
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            raise TypeError("The schema of a tool's arguments refers to itself or is too large.")
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
            raise TypeError("The schema of a tool's arguments refers to itself.")
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


LARGEST = 50_000
#: Objects in one schema. Checking a schema takes about a millisecond for each.
MOST_OBJECTS = 1_500
#: Steps of validating one set of arguments.
MOST_STEPS = 200_000
SHOWN_ERRORS = 5
#: Keywords that can keep Python busy without end in a single step.
SKIPPED_KEYWORDS = (
    *("pattern", "patternProperties", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
#: What a schema that makes no sense raises where it is used.
SCHEMA_ERRORS = (
    *(TypeError, KeyError, AttributeError, OverflowError, RecursionError),
    *(ValueError, Unresolvable),
)
UNUSABLE = (
    "Models cannot use this schema: it refers to itself, is too complex, or a part of it is not "
    "an object."
)
Check = Callable[[Any, Any, Any, Any], Iterable[exceptions.ValidationError] | None]
_left: ContextVar[int] = ContextVar("steps left")


def _skip(*_: Any) -> None:
    """Skip the keyword. The client that runs the tool checks this part of its arguments."""


def _counted(check: Check) -> Check:
    @wraps(check)
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        left = _left.get() - (len(value) if isinstance(value, list | dict) else 1)
        if left < 0:
            raise ValueError("The schema is too complex.")
        _left.set(left)
        return check(validator, value, instance, schema)

    return counted


_KEYWORDS = {name: _counted(check) for name, check in Draft202012Validator.VALIDATORS.items()}
Validator = extend(Draft202012Validator, {**_KEYWORDS, **dict.fromkeys(SKIPPED_KEYWORDS, _skip)})


def check_schema(schema: JSON) -> None:
    """Raise ValueError if the schema of a tool's arguments cannot be used."""
    try:
        packed = orjson.dumps(schema)
    except TypeError:
        raise ValueError("The schema is nested too deeply.") from None
    if len(packed) > LARGEST or count_objects(schema) > MOST_OBJECTS:
        raise ValueError(f"The schema has more than {LARGEST:,} bytes or {MOST_OBJECTS:,} objects.")
    if schema.get("type") != "object":
        raise ValueError('The schema must describe an object: {"type": "object", …}.')
    if any(not target.startswith("#/") for target in _references(schema)):
        raise ValueError("The schema may only refer to its own parts, as in #/$defs/place.")
    try:
        # Without formats: checking whether a pattern compiles would compile it.
        Draft202012Validator.check_schema(schema, format_checker=None)
        portable_schema(schema)
        # The first use reveals references that lead nowhere or in a circle.
        _errors(packed, {})
    except exceptions.SchemaError as error:
        raise ValueError(f"This is not a JSON Schema: {error.message[:300]}") from None
    except SCHEMA_ERRORS:
        raise ValueError(UNUSABLE) from None


def check_arguments(name: str, schema: JSON, raw: JSON) -> None:
    """Raise ToolFailed with a message that the model can act on if the arguments do not fit."""
    try:
        errors = _errors(orjson.dumps(schema), raw)
    except SCHEMA_ERRORS:
        raise ToolFailed(f"The arguments of {name} cannot be checked with its schema.") from None
    if errors:
        raise invalid_arguments(name, [(error.path, error.message[:200]) for error in errors])


def find_errors(schema: JSON, value: object) -> str:
    """Return which rules of a schema a value breaks, and where; "" if it fits."""
    try:
        errors = _errors(orjson.dumps(schema), value)
    except SCHEMA_ERRORS:
        return "it cannot be checked: it is too large or nested too deeply"
    shown = [
        f"{'.'.join(map(str, error.path)) or 'the answer'}: {error.message[:200]} ({error.validator})"
        for error in errors[:SHOWN_ERRORS]
    ]
    return "; ".join(shown)


def invalid_arguments(name: str, errors: Sequence[tuple[Iterable[str | int], str]]) -> ToolFailed:
    """Return the fault for arguments that are wrong at these places, for these reasons."""
    shown = [
        f"{'.'.join(map(str, path)) or 'arguments'}: {why}" for path, why in errors[:SHOWN_ERRORS]
    ]
    more = f" (and {len(errors) - SHOWN_ERRORS} more)" if len(errors) > SHOWN_ERRORS else ""
    return ToolFailed(f"Invalid arguments for {name}: {'; '.join(shown)}{more}.")


def first_argument(schema: JSON) -> str:
    """Return the argument that patterns of rules are matched against."""
    # The database keeps the order of `required`, but not that of `properties`.
    return next(iter([*schema.get("required", []), *schema.get("properties", {})]), "")


def count_objects(node: object) -> int:
    """Count the JSON objects in a value, itself included."""
    if isinstance(node, dict):
        return 1 + sum(map(count_objects, node.values()))
    return sum(map(count_objects, node)) if isinstance(node, list) else 0


def _errors(packed: bytes, value: object) -> list[exceptions.ValidationError]:
    """Return everything that does not fit, found within a bounded number of steps."""
    before = _left.set(MOST_STEPS)
    try:
        found = _validator(packed).iter_errors(value)
        return sorted(found, key=lambda error: list(error.path))
    finally:
        _left.reset(before)


@lru_cache(maxsize=500)
def _validator(packed: bytes) -> Any:
    # An empty registry: no reference is ever fetched.
    return Validator(_without_drafts(orjson.loads(packed)), registry=Registry())


def _without_drafts(node: Any) -> Any:
    """Remove `$schema`: a part that names a draft would be evaluated with that draft's keywords."""
    if isinstance(node, dict):
        named = (name for name in node if name != "$schema" or not isinstance(node[name], str))
        return {name: _without_drafts(node[name]) for name in named}
    return [_without_drafts(part) for part in node] if isinstance(node, list) else node


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for part in node:
            yield from _references(part)
