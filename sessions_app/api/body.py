"""Unwraps what a client sent: JSON that the log can hold, in the shape that the door wants."""

from __future__ import annotations

from typing import Any

import orjson
from rest_framework import serializers
from rest_framework.request import Request

from config.faults import Invalid
from tools_app.clip import storable_json

UNFIT = "This cannot be stored: it holds NUL, is nested too deeply or has too large a number."


def can_be_stored(value: Any) -> bool:
    """Whether PostgreSQL holds this JSON as it is: no NUL, no endless nesting, no huge number."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return storable_json(value) == value


class ObjectField(serializers.DictField):
    """A JSON object that PostgreSQL can store, of a bounded size."""

    default_error_messages = {
        "unfit": UNFIT,
        "too_large": "This is larger than {most} bytes.",
    }

    def __init__(self, *, most: int = 1_000_000, **words: Any) -> None:
        self.most = most
        super().__init__(**words)

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        value = super().to_internal_value(data)
        if not can_be_stored(value):
            self.fail("unfit")
        if len(orjson.dumps(value)) > self.most:
            self.fail("too_large", most=f"{self.most:,}")
        return value


def body_of(request: Request, shape: type[serializers.Serializer]) -> dict[str, Any]:
    """The body in this shape, or an error that names each wrong field. No body is an empty one."""
    data = request.data
    if not isinstance(data, dict):
        raise Invalid("The body must be a JSON object.")
    asked = shape(data=data)
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)
