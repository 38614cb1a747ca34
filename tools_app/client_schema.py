"""JSON Schemas that come from outside: whether they can be used, and whether arguments fit them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import (  # type: ignore[import-untyped]
    Draft202012Validator,
    SchemaError,
)
from jsonschema.validators import extend  # type: ignore[import-untyped]
from referencing import Registry

from agents.providers.base import JSON
from config.faults import ToolFailed
from tools_app.schema import plain_schema

LARGEST = 50_000
SHOWN_ERRORS = 5


def _unread(*_: Any) -> None:
    """A pattern from outside can keep Python's regular expressions busy for ever."""


Validator = extend(Draft202012Validator, {"pattern": _unread, "patternProperties": _unread})


def check_schema(schema: JSON) -> None:
    """Raise ValueError with what is wrong with the schema of a tool's arguments."""
    if len(orjson.dumps(schema)) > LARGEST:
        raise ValueError(f"The schema is larger than {LARGEST:,} bytes.")
    if schema.get("type") != "object":
        raise ValueError('The schema must describe an object: {"type": "object", …}.')
    if any(not target.startswith("#/") for target in _references(schema)):
        raise ValueError("The schema may only refer to its own parts, as in #/$defs/place.")
    try:
        Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"This is not a JSON Schema: {error.message[:300]}") from None
    try:
        plain_schema(schema)
    except (TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(
            "No model can be told of this schema: it refers to itself, or a part is no object."
        ) from None


def check_arguments(name: str, schema: JSON, raw: JSON) -> None:
    """Raise a complaint that the model can act on, if the arguments do not fit."""
    errors = sorted(_validator(orjson.dumps(schema)).iter_errors(raw), key=lambda e: list(e.path))
    if not errors:
        return
    told = [
        f"{'.'.join(str(part) for part in error.path) or 'arguments'}: {error.message[:200]}"
        for error in errors[:SHOWN_ERRORS]
    ]
    more = f" (and {len(errors) - SHOWN_ERRORS} more)" if len(errors) > SHOWN_ERRORS else ""
    raise ToolFailed(f"Invalid arguments for {name}: {'; '.join(told)}{more}.")


@lru_cache(maxsize=500)
def _validator(packed: bytes) -> Any:
    # An empty registry: nothing is ever fetched to make sense of a schema.
    return Validator(orjson.loads(packed), registry=Registry())


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            yield from _references(value)
    elif isinstance(node, list):
        for part in node:
            yield from _references(part)
