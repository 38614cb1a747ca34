"""REST: recall."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from config.faults import Invalid
from memory.api.inputs import reader_for
from memory.api.serializers import HitSerializer
from memory.ranking import Weights
from memory.recall import MOST_HITS, Search, recall
from tenants.api.whole import whole_page, whole_page_of
from tenants.authentication import principal_of


class SearchView(APIView):
    @extend_schema(
        operation_id="memory_search",
        parameters=[
            OpenApiParameter("q", str, required=True, description="A question or a few words."),
            OpenApiParameter("agent", str, description="See what this agent would: id or name."),
            OpenApiParameter("session", str, description="See what this session would: its id."),
            OpenApiParameter("limit", int, description=f"At most {MOST_HITS}; 10 if left out."),
            OpenApiParameter("recency", float, description="How much age counts, 0 to 1."),
        ],
        responses=whole_page_of(HitSerializer),
    )
    def get(self, request: Request) -> Response:
        """What memory says about something, best first, each score explained by its parts."""
        asked = request.query_params
        reader = reader_for(
            principal_of(request), agent=asked.get("agent"), session=asked.get("session")
        )
        recency = _number(asked.get("recency"), "recency", default=Weights.recency, most=1)
        search = Search(
            limit=int(_number(asked.get("limit"), "limit", default=10, most=MOST_HITS, least=1)),
            weights=Weights(recency=recency),
        )
        hits = recall(reader, asked.get("q", ""), search)
        return whole_page(HitSerializer(hits, many=True).data)


def _number(text: str | None, name: str, *, default: float, most: float, least: float = 0) -> float:
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise Invalid(f"{name} is a number.") from None
    if not value >= least:  # A value that is no number at all is not larger either.
        raise Invalid(f"{name} is a number from {least:g} to {most:g}.")
    return min(value, most)
