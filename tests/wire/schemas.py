"""The rules of every vendor for the schemas of tools."""

from __future__ import annotations

import re

import jsonschema_rs

from tests.wire.answers import JSON, BadRequest


def check_tool(name: object, schema: object, *, pattern: str, seen: set[str]) -> None:
    """Require a unique name in the vendor's alphabet, and a valid object schema."""
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise BadRequest(f"Invalid function name: {name!r}. It must match {pattern}.")
    if name in seen:
        raise BadRequest(f"Duplicate function declaration found: {name}")
    seen.add(name)
    if schema is not None:
        check_schema(name, schema)


def check_schema(name: str, schema: object) -> None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise BadRequest(f"Invalid schema for function {name!r}: schema must be of type 'object'.")
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        raise BadRequest(f"Invalid schema for function {name!r}: {error.message}") from None


def only_known(thing: JSON, known: frozenset[str], where: str) -> None:
    """Refuse unknown fields, as vendors do."""
    if unknown := set(thing) - known:
        raise BadRequest(
            f"Invalid JSON payload received. Unknown name {min(unknown)!r} at {where!r}."
        )
