"""Lists that are whole on their first page, in the shape of all lists."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers
from rest_framework.response import Response

#: How the document describes the query of a list that is given out by pages outside of a view set.
PAGE = [
    OpenApiParameter("cursor", str, description="A place in the list, taken from `next`."),
    OpenApiParameter("limit", int, description="The most rows to return."),
]


def whole_page_of(
    shape: type[serializers.Serializer], **more: serializers.Field
) -> serializers.Serializer:
    """How the document describes such a list, with what else it says."""
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
