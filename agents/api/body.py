"""Unwraps what a client sent. What it says is judged where it is used, the same for every door."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.serializers import Serializer

from config.faults import Invalid


def fields_in(request: Request, shape: type[Serializer]) -> dict[str, Any]:
    """The fields of the body, without those that only the server writes.

    A client may so send back what it got, changed.
    """
    if not isinstance(request.data, dict):
        raise Invalid("The body must be a JSON object.")
    ours = {name for name, field in shape().fields.items() if field.read_only}
    return {name: value for name, value in request.data.items() if name not in ours}
