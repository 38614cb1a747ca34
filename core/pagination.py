"""Cursor pagination, newest first. Pages stay correct while rows are added."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Model, Q, QuerySet
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from core.exceptions import Invalid

if TYPE_CHECKING:
    from rest_framework.views import APIView


INVALID_CURSOR = "This cursor is not valid. Use `next` or `previous` of a page."


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """A position between two rows, and the direction to read from it."""

    moment: datetime
    pk: str
    newer: bool

    def encode(self) -> str:
        values = [self.moment.isoformat(), self.pk, int(self.newer)]
        return urlsafe_b64encode(json.dumps(values).encode()).decode()


def decode_cursor(text: str) -> Cursor:
    try:
        moment, pk, newer = json.loads(urlsafe_b64decode(text.encode()))
        at = parse_datetime(moment)
        if at is None or at.tzinfo is None:
            raise ValueError(moment)
        return Cursor(moment=at, pk=str(pk), newer=bool(newer))
    except (ValueError, TypeError, RecursionError):
        raise Invalid(INVALID_CURSOR) from None


class NewestFirst(BasePagination):
    """Answers `{results, next, previous}`, with `?limit=` up to 200.

    The cursor holds (moment, id), so rows of the same moment are neither lost nor repeated.
    """

    moment = "created_at"
    page_size = 50
    max_page_size = 200

    def paginate_queryset(
        self,
        queryset: QuerySet | Sequence[Any],
        request: Request,
        view: APIView | None = None,
    ) -> list[Any]:
        if not isinstance(queryset, QuerySet):
            raise TypeError("only querysets can be paginated")
        self.url = request.build_absolute_uri()
        limit = self.limit_of(request)
        text = request.query_params.get("cursor")
        cursor = decode_cursor(text) if text else None
        newer = cursor is not None and cursor.newer
        signs = ("", "") if newer else ("-", "-")
        rows = queryset.order_by(f"{signs[0]}{self.moment}", f"{signs[1]}pk")
        if cursor:
            rows = rows.filter(self._beyond(cursor, queryset.model))
        fetched = self.fetch(rows, limit + 1)
        more, page = len(fetched) > limit, fetched[:limit]
        self.page = page[::-1] if newer else page
        self.has_older = newer or more
        self.has_newer = more if newer else cursor is not None
        return self.page

    def fetch(self, rows: QuerySet, count: int) -> list[Any]:
        """Return the first of the ordered rows."""
        return list(rows[:count])

    def limit_of(self, request: Request) -> int:
        """Return how many rows the request asks for."""
        text = request.query_params.get("limit")
        if text is None:
            return self.page_size
        if not text.isascii() or not text.isdigit() or int(text[:9]) < 1:
            raise Invalid(f"limit must be a number from 1 to {self.max_page_size}.")
        return min(int(text[:9]), self.max_page_size)

    def _beyond(self, cursor: Cursor, model: type[Model]) -> Q:
        side = "gt" if cursor.newer else "lt"
        pk = model._meta.pk.to_python(cursor.pk)
        return Q(**{f"{self.moment}__{side}": cursor.moment}) | Q(
            **{self.moment: cursor.moment, f"pk__{side}": pk}
        )

    def _link(self, row: Model | None, *, newer: bool) -> str | None:
        if row is None:
            return None
        cursor = Cursor(moment=getattr(row, self.moment), pk=str(row.pk), newer=newer)
        return replace_query_param(self.url, "cursor", cursor.encode())

    def get_paginated_response(self, data: Sequence[Any]) -> Response:
        last = self.page[-1] if self.page and self.has_older else None
        first = self.page[0] if self.page and self.has_newer else None
        return Response(
            {
                "results": data,
                "next": self._link(last, newer=False),
                "previous": self._link(first, newer=True),
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": "string", "nullable": True, "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {
                "results": schema,
                "next": {**link, "description": "The page of older rows."},
                "previous": {**link, "description": "The page of newer rows."},
            },
        }

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        limits = {"type": "integer", "minimum": 1, "maximum": self.max_page_size}
        return [
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "description": "A position in the list, from `next` or `previous`.",
                "schema": {"type": "string"},
            },
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "description": "The maximum number of rows.",
                "schema": {**limits, "default": self.page_size},
            },
        ]


def rows_to_skip(request: Request) -> int:
    """Return the cursor of a list whose order has no column to continue from: a number of rows."""
    text = request.query_params.get("cursor", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise Invalid(INVALID_CURSOR)
    return int(text)


def link_after(request: Request, rows: int | None) -> str | None:
    """Return the address of the page after this many rows."""
    if rows is None:
        return None
    return replace_query_param(request.build_absolute_uri(), "cursor", rows)


#: The OpenAPI parameters of a list that a view paginates itself.
PAGE = [
    OpenApiParameter("cursor", str, description="A position in the list, from `next`."),
    OpenApiParameter("limit", int, description="The maximum number of rows."),
]


def whole_page_of(
    shape: type[serializers.Serializer], **more: serializers.Field
) -> serializers.Serializer:
    """Return the OpenAPI shape of a list that is never split into pages, with extra fields."""
    return inline_serializer(
        f"{shape.__name__.removesuffix('Serializer')}WholePage",
        {
            "results": shape(many=True),
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            **more,
        },
    )


def whole_page(results: Any, **more: Any) -> Response:
    return Response({"results": results, "next": None, "previous": None, **more})
