"""Strict parsing, validated bodies and serializer fields for the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import IO, Any

import orjson
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import models
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from core.exceptions import Invalid


class TextField(serializers.CharField):
    """A text field that refuses numbers and booleans instead of converting them."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class PatternField(TextField, serializers.RegexField):
    """A strict text field that must match a pattern."""


class OwnSerializer(serializers.ModelSerializer):
    """A model serializer with strict text fields."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.CharField: TextField,
        models.TextField: TextField,
    }


class StrictJSONParser(JSONParser):
    """Parses JSON strictly: no invalid Unicode, no NaN, bounded nesting and size."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        request: Request = (parser_context or {})["request"]
        if int(request.META.get("CONTENT_LENGTH") or 0) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig
        try:
            return orjson.loads(stream.read())
        except orjson.JSONDecodeError as error:
            raise ParseError(f"This is not JSON: {error}") from None


def json_object(request: Request) -> dict[str, Any]:
    """Return the body of a request, which must be an object."""
    if not isinstance(request.data, dict):
        raise Invalid("The body must be a JSON object.")
    return request.data


def validate_body(
    request: Request, serializer: type[serializers.Serializer], *, partial: bool = False
) -> dict[str, Any]:
    """Return the validated body, or raise an error that names each wrong field."""
    return dict(_instance(serializer, partial).run_validation(json_object(request)))


def represent(serializer: type[serializers.Serializer], row: models.Model) -> dict[str, Any]:
    """Return a row as JSON, by a serializer that needs neither a request nor another context."""
    return dict(_instance(serializer, False).to_representation(row))


@cache
def _instance(serializer: type[serializers.Serializer], partial: bool) -> serializers.Serializer:
    """Return one instance for all requests: building its fields takes longer than using them.

    It is bound to no data, so threads can share it.
    """
    return serializer(partial=partial)
