"""Strict parsing, validated bodies and serializer fields for the REST API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import IO, Any

import orjson
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import models
from django.http import HttpResponse
from rest_framework import renderers, serializers
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from core.exceptions import Invalid


class QuickSurrogateValidator(ProhibitSurrogateCharactersValidator):
    """Looks for surrogates by encoding the text, not one character after the other."""

    def __call__(self, value: Any) -> None:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            super().__call__(value)


class TextField(serializers.CharField):
    """A text field that refuses numbers and booleans instead of converting them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.validators = [
            QuickSurrogateValidator()
            if type(each) is ProhibitSurrogateCharactersValidator
            else each
            for each in self.validators
        ]

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


class JSONRenderer(renderers.JSONRenderer):
    """Writes JSON with orjson, and leaves to Django's encoder what that does not write the same way."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is not None and ";" not in (accepted_media_type or ""):
            try:
                return orjson.dumps(data, _default, ORJSON_OPTIONS)
            except (TypeError, ValueError):
                pass  # for example a huge number
        return bytes(super().render(data, accepted_media_type, renderer_context))


ORJSON_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_default = JSONEncoder().default


def json_response(data: Any, *, status: int = 200) -> HttpResponse:
    """Return a response that is written already, for views that answer many times a second."""
    body = orjson.dumps(data, _default, ORJSON_OPTIONS)
    return HttpResponse(body, status=status, content_type="application/json")


class Negotiation(DefaultContentNegotiation):
    """Answers at once for clients that take any type, or send and take the first one of the view."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        first = next(iter(parsers), None)
        if first and first.media_type == request.content_type:
            return first
        return super().select_parser(request, parsers)

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[renderers.BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[renderers.BaseRenderer, str]:
        first, accepted = next(iter(renderers)), request.META.get("HTTP_ACCEPT", "*/*")
        is_plain = not format_suffix and not request.META.get("QUERY_STRING")
        if is_plain and accepted in ("*/*", first.media_type):
            return first, first.media_type
        return super().select_renderer(request, renderers, format_suffix)


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
