"""Unwraps what a client sent. What it says is judged where it is used, the same for every door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.serializers import Serializer

from agents.inputs import wrong_field
from config.faults import Invalid


def fields_in(request: Request, shape: type[Serializer]) -> dict[str, Any]:
    """The fields of the body, without those that only the server writes.

    A client may so send back what it got, changed.
    """
    ours = {name for name, field in shape().fields.items() if field.read_only}
    return {name: value for name, value in object_in(request).items() if name not in ours}


def object_in(request: Request) -> dict[str, Any]:
    if not isinstance(request.data, dict):
        raise Invalid("The body must be a JSON object.")
    return request.data


def number_in(body: Mapping[str, Any], name: str) -> int | None:
    """The number of the version or revision that a change builds on, if the client says one."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise wrong_field(name, "This is the number of what the change builds on.")
    return value


def take_number(body: dict[str, Any], name: str) -> int | None:
    """The same, taken out of the fields that are then written."""
    number = number_in(body, name)
    body.pop(name, None)
    return number
