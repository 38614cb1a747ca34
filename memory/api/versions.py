"""REST: the versions of one document; restore and redact."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from config.faults import Invalid, NotFound
from memory.api.entries import STALE
from memory.api.inputs import everything
from memory.api.serializers import (
    EntrySerializer,
    MemoryVersionSerializer,
    RedactionSerializer,
    WhichVersionSerializer,
)
from memory.documents import redact, restore_version, version_of, whole_number
from memory.models import MemoryEntry, MemoryVersion
from memory.owner import person
from tenants.access import Principal
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser
from tenants.authentication import principal_of


def find_entry(principal: Principal, entry_id: UUID) -> MemoryEntry:
    """A document that the caller may see, deleted or not."""
    rows = MemoryEntry.objects.seen_by(everything(principal)).select_related("current")
    entry = rows.filter(pk=entry_id).first()
    if entry is None:
        raise NotFound
    return entry


class VersionViewSet(ListModelMixin, WorkspaceViewSet):
    """The texts that a document has had."""

    queryset = MemoryVersion.objects.all()
    serializer_class = MemoryVersionSerializer

    def get_queryset(self) -> Any:
        entry = find_entry(self.principal, self.kwargs["entry_id"])
        return super().get_queryset().filter(entry=entry)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """All versions, the newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(operation_id="memory_versions_retrieve")
    def retrieve(self, request: Request, entry_id: UUID, number: int) -> Response:
        """One version by its number."""
        version = version_of(find_entry(self.principal, entry_id), number)
        return Response(MemoryVersionSerializer(version).data)


class EntryDoor(APIView):
    """Finds the document before it reads the body: a stranger learns nothing by sending one."""

    parser_classes = [StrictJSONParser]

    def open(self, request: Request, entry_id: UUID) -> tuple[MemoryEntry, UUID | None, Any]:
        principal = principal_of(request)
        entry = find_entry(principal, entry_id)
        if not isinstance(request.data, dict):
            raise Invalid("The body must be a JSON object.")
        return entry, principal.user_id, request.data


class RestoreView(EntryDoor):
    @extend_schema(
        operation_id="memory_restore",
        request=WhichVersionSerializer,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID) -> Response:
        """Write an earlier text again, as the newest version. Brings back a deleted document."""
        entry, by, body = self.open(request, entry_id)
        return _restored(entry, _number_of(entry, body.get("version")), by, body)


class RestoreVersionView(EntryDoor):
    @extend_schema(
        operation_id="memory_versions_restore",
        request=None,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID, number: int) -> Response:
        """Write this text again, as the newest version."""
        entry, by, body = self.open(request, entry_id)
        return _restored(entry, number, by, body)


class RedactView(EntryDoor):
    verbs = {"post": "admin"}

    @extend_schema(
        operation_id="memory_redact",
        request=RedactionSerializer,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID) -> Response:
        """Take the text out of one version, or of all, for good. Who wrote when stays."""
        entry, by, body = self.open(request, entry_id)
        number = body.get("version")
        changed = redact(
            entry,
            by=by,
            number=None if number is None else whole_number(number, "version"),
            expected_hash=_expected(body),
        )
        return Response(EntrySerializer(changed).data)


def _number_of(entry: MemoryEntry, version: object) -> int:
    """A version may be named by its number, or by its id."""
    try:
        named = UUID(version) if isinstance(version, str) else None
    except ValueError:
        named = None
    if named is None:
        return whole_number(version, "version")
    number: int | None = entry.versions.filter(pk=named).values_list("number", flat=True).first()
    if number is None:
        raise NotFound(f"There is no version {version}.")
    return number


def _restored(entry: MemoryEntry, number: int, by: UUID | None, body: dict[str, Any]) -> Response:
    changed = restore_version(entry, number, author=person(by), expected_hash=_expected(body))
    return Response(EntrySerializer(changed).data)


def _expected(body: dict[str, Any]) -> str | None:
    expected = body.get("expected_hash")
    if not (expected is None or isinstance(expected, str)):
        raise Invalid("expected_hash is a text.")
    return expected
