"""REST: documents of memory."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.filters import AgentFilter
from agents.inputs import is_storable
from memory.api.inputs import entry_change, everything, new_entry, owner_for
from memory.api.serializers import EntrySerializer
from memory.documents import change_entry, delete_entry
from memory.models import MemoryEntry
from memory.owner import person
from memory.writing import ABSENT, write_entry
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser

STALE = OpenApiResponse(
    description="Somebody wrote first. `current` is the newer version: its `hash` and `content`."
)
LARGE = OpenApiResponse(description="The document has more than 100,000 bytes.")
FILTERS = [
    OpenApiParameter("prefix", str, description="See those whose path begins so."),
    OpenApiParameter("path", str, description="See those with exactly this path."),
    OpenApiParameter("deleted", bool, description="See the deleted ones instead."),
]


class EntryFilter(filters.FilterSet):
    agent = AgentFilter()

    class Meta:
        model = MemoryEntry
        fields = ["scope", "session", "pinned", "trust", "never_recall"]


class EntryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Documents of memory. What a person keeps for themselves is seen by nobody else."""

    queryset = MemoryEntry.objects.select_related("current")
    serializer_class = EntrySerializer
    filterset_class = EntryFilter
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        rows = self.queryset.seen_by(everything(self.principal)).filter(current__isnull=False)
        asked = self.request.query_params
        deleted = self.action == "list" and asked.get("deleted", "").lower() in {"1", "true"}
        rows = rows.filter(deleted_at__isnull=not deleted)
        if self.action == "list":
            for name, lookup in (("prefix", "path__startswith"), ("path", "path")):
                if words := asked.get(name):
                    rows = rows.filter(**{lookup: words}) if is_storable(words) else rows.none()
        return rows

    @property
    def author_id(self) -> Any:
        return self.principal.user_id

    @extend_schema(parameters=FILTERS)
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Documents of the workspace, the newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(responses={201: EntrySerializer, 409: STALE, 413: LARGE})
    def create(self, request: Request) -> Response:
        """Write a new document. A path that is taken answers 409 with what is there."""
        authorise(self.principal, "run")
        given = new_entry(request)
        entry = write_entry(
            owner=owner_for(self.principal, given),
            path=given.path,
            content=given.content,
            author=person(self.author_id),
            expected_hash=ABSENT if given.expected_hash is None else given.expected_hash,
            marks=given.marks,
        )
        return Response(EntrySerializer(entry).data, status=201)

    @extend_schema(responses={200: EntrySerializer, 409: STALE, 413: LARGE})
    def update(self, request: Request, pk: str) -> Response:
        """Write the document anew."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: EntrySerializer, 409: STALE, 413: LARGE})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is named. A text makes the next version."""
        return self._change(request, replace=False)

    @extend_schema(
        parameters=[OpenApiParameter("expected_hash", str, description="Refuse if not newest.")],
        responses={204: None, 409: STALE},
    )
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the document. Its versions stay and can be restored, until they are redacted."""
        delete_entry(self.get_object(), expected_hash=request.query_params.get("expected_hash"))
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        entry: MemoryEntry = self.get_object()
        given = entry_change(request, entry, replace=replace)
        changed = change_entry(
            entry,
            author=person(self.author_id),
            content=given.content,
            path=given.path,
            marks=given.marks,
            expected_hash=given.expected_hash,
        )
        return Response(EntrySerializer(changed).data)
