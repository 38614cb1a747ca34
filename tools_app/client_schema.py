"""JSON Schemas that come from outside: whether they can be used, and whether arguments fit them.

A few lines of a schema can ask for more work than a machine gets done in a year, by patterns or by
parts that refer to each other. What takes long by its nature is not read, and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

import orjson
from jsonschema import (  # type: ignore[import-untyped]
    Draft202012Validator,
    SchemaError,
    ValidationError,
)
from jsonschema.validators import extend  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from agents.providers.base import JSON
from config.faults import ToolFailed
from tools_app.schema import plain_schema

LARGEST = 50_000
#: Objects in one schema. To judge a schema takes about a millisecond for each.
MOST_OBJECTS = 1_500
#: Steps of judging one set of arguments.
MOST_STEPS = 200_000
SHOWN_ERRORS = 5
#: Keywords that can keep Python busy for ever in a single step.
UNREAD = (
    *("pattern", "patternProperties", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
#: What a schema that makes no sense raises where it is used.
SENSELESS = (
    *(TypeError, KeyError, AttributeError, OverflowError, RecursionError),
    *(ValueError, Unresolvable),
)
USELESS = (
    "No model can be told of this schema: it refers to itself, takes too long to follow, or a part "
    "is no object."
)

Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]
_left: ContextVar[int] = ContextVar("steps left")


def _unread(*_: Any) -> None:
    """Whoever runs the tool judges this part of its arguments."""


def _counted(check: Check) -> Check:
    @wraps(check)
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        left = _left.get() - (len(value) if isinstance(value, list | dict) else 1)
        if left < 0:
            raise ValueError("It takes too long to follow.")
        _left.set(left)
        return check(validator, value, instance, schema)

    return counted


_KEYWORDS = {name: _counted(check) for name, check in Draft202012Validator.VALIDATORS.items()}
Validator = extend(Draft202012Validator, {**_KEYWORDS, **dict.fromkeys(UNREAD, _unread)})


def check_schema(schema: JSON) -> None:
    """Raise ValueError with what is wrong with the schema of a tool's arguments."""
    try:
        packed = orjson.dumps(schema)
    except TypeError:
        raise ValueError("The schema is nested too deeply.") from None
    if len(packed) > LARGEST or objects_in(schema) > MOST_OBJECTS:
        raise ValueError(f"The schema has more than {LARGEST:,} bytes or {MOST_OBJECTS:,} objects.")
    if schema.get("type") != "object":
        raise ValueError('The schema must describe an object: {"type": "object", …}.')
    if any(not target.startswith("#/") for target in _references(schema)):
        raise ValueError("The schema may only refer to its own parts, as in #/$defs/place.")
    try:
        # Without formats: to try out whether a pattern can be read is to read it.
        Draft202012Validator.check_schema(schema, format_checker=None)
        plain_schema(schema)
        # A first use: what leads nowhere, or round and round, comes to light here.
        _errors(packed, {})
    except SchemaError as error:
        raise ValueError(f"This is not a JSON Schema: {error.message[:300]}") from None
    except SENSELESS:
        raise ValueError(USELESS) from None


def check_arguments(name: str, schema: JSON, raw: JSON) -> None:
    """Raise a complaint that the model can act on, if the arguments do not fit."""
    try:
        errors = _errors(orjson.dumps(schema), raw)
    except SENSELESS:
        raise ToolFailed(f"The arguments of {name} cannot be judged by its schema.") from None
    if not errors:
        return
    told = [
        f"{'.'.join(str(part) for part in error.path) or 'arguments'}: {error.message[:200]}"
        for error in errors[:SHOWN_ERRORS]
    ]
    more = f" (and {len(errors) - SHOWN_ERRORS} more)" if len(errors) > SHOWN_ERRORS else ""
    raise ToolFailed(f"Invalid arguments for {name}: {'; '.join(told)}{more}.")


def objects_in(node: object) -> int:
    """How many JSON objects a value holds, itself included."""
    if isinstance(node, dict):
        return 1 + sum(map(objects_in, node.values()))
    return sum(map(objects_in, node)) if isinstance(node, list) else 0


def _errors(packed: bytes, value: object) -> list[ValidationError]:
    """Everything that does not fit, found within a bounded number of steps."""
    before = _left.set(MOST_STEPS)
    try:
        found = _validator(packed).iter_errors(value)
        return sorted(found, key=lambda error: list(error.path))
    finally:
        _left.reset(before)


@lru_cache(maxsize=500)
def _validator(packed: bytes) -> Any:
    # An empty registry: nothing is ever fetched to make sense of a schema.
    return Validator(_of_one_kind(orjson.loads(packed)), registry=Registry())


def _of_one_kind(node: Any) -> Any:
    """Without `$schema`: a part that names a draft would be judged by that draft's own keywords."""
    if isinstance(node, dict):
        named = (name for name in node if name != "$schema" or not isinstance(node[name], str))
        return {name: _of_one_kind(node[name]) for name in named}
    return [_of_one_kind(part) for part in node] if isinstance(node, list) else node


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for part in node:
            yield from _references(part)
