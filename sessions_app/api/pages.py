"""Pages of a log: `?after=SEQ&limit=N`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from config.faults import Invalid
from sessions_app.reader import cursor_in

DEFAULT_LIMIT, MOST = 100, 1000
#: How a page of a log is asked for.
PLACE = [
    OpenApiParameter("after", OpenApiTypes.INT, description="Begin after this seq; 0 by default."),
    OpenApiParameter(
        "limit",
        OpenApiTypes.INT,
        description=f"At most so many, up to {MOST}; {DEFAULT_LIMIT} by default.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a page of a log begins, and how long it may be."""

    after: int
    limit: int

    @classmethod
    def in_request(cls, request: Request) -> Place:
        asked = request.query_params
        limit = asked.get("limit", str(DEFAULT_LIMIT))
        if not limit.isascii() or not limit.isdigit() or int(limit[:9]) < 1:
            raise Invalid(f"limit is a number from 1 to {MOST}.")
        return cls(after=cursor_in(asked.get("after", "0")), limit=min(int(limit[:9]), MOST))


def log_page(request: Request, place: Place, results: Sequence[Any]) -> Response:
    """One row more than asked for was read: it says whether there is a next page."""
    page, following = list(results[: place.limit]), None
    if len(results) > place.limit:
        here = request.build_absolute_uri()
        following = replace_query_param(here, "after", page[-1]["seq"])
    # A log is read forwards; the member is there because every list has it.
    return Response({"results": page, "next": following, "previous": None})


def log_page_of(shape: type[serializers.Serializer]) -> serializers.Serializer:
    return inline_serializer(
        f"{shape.__name__.removesuffix('Serializer')}LogPage",
        {
            "results": shape(many=True),
            "next": serializers.URLField(allow_null=True, help_text="The page after this one."),
            "previous": serializers.URLField(
                allow_null=True, help_text="Always null: a log is read forwards."
            ),
        },
    )
