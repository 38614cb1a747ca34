"""REST views of documents: list, write, search, restore, redact, export and import."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any
from uuid import UUID

from django.core.exceptions import RequestDataTooBig
from django.http import FileResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import AgentFilter
from agents.definitions import find_agent
from core.db import release_connection
from core.exceptions import Invalid, NotFound
from core.pagination import whole_page, whole_page_of
from core.rest import StrictJSONParser
from core.throttling import search_slot, transfer_slot
from core.validation import is_storable
from memory import documents
from memory.api import serializers
from memory.api.serializers import EntrySerializer
from memory.archive import (
    Imported,
    import_archive,
    is_small,
    is_small_archive,
    read_archive,
    write_archive,
)
from memory.embeddings import embed_missing
from memory.exceptions import ExportTooLarge
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Owner, person
from memory.ranking import Weights
from memory.recall import MOST_HITS, Search, recall
from orchestrator.api.workflows import AcceptedSerializer, describe_workflow
from orchestrator.transfers import start_memory_export, start_memory_import
from tenants.access import Principal, authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of

STALE = OpenApiResponse(
    description="The document changed first. `current` is the newer version: `hash` and `content`."
)
LARGE = OpenApiResponse(description="The document has more than 100,000 bytes.")
FILTERS = [
    OpenApiParameter("prefix", str, description="Return documents whose path begins with this."),
    OpenApiParameter("path", str, description="Return the documents with exactly this path."),
    OpenApiParameter("deleted", bool, description="Return deleted documents instead."),
]


class EntryFilter(filters.FilterSet):
    agent = AgentFilter()

    class Meta:
        model = MemoryEntry
        fields = ["scope", "session", "pinned", "trust", "never_recall"]


class EntryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Memory documents. A person's own documents are visible only to that person."""

    queryset = MemoryEntry.objects.select_related("current")
    serializer_class = EntrySerializer
    filterset_class = EntryFilter
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        rows = self.queryset.seen_by(serializers.workspace_reader(self.principal)).filter(
            current__isnull=False
        )
        params = self.request.query_params
        deleted = self.action == "list" and params.get("deleted", "").lower() in {"1", "true"}
        rows = rows.filter(deleted_at__isnull=not deleted)
        if self.action == "list":
            for name, lookup in (("prefix", "path__startswith"), ("path", "path")):
                if text := params.get(name):
                    rows = rows.filter(**{lookup: text}) if is_storable(text) else rows.none()
        return rows

    @property
    def author_id(self) -> Any:
        return self.principal.user_id

    @extend_schema(parameters=FILTERS)
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the documents of the workspace, newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(responses={201: EntrySerializer, 409: STALE, 413: LARGE})
    def create(self, request: Request) -> Response:
        """Create a document. A path that is taken answers 409 with the existing document."""
        authorise(self.principal, "run")
        given = serializers.new_entry(request)
        entry = documents.write_entry(
            owner=serializers.owner_for(self.principal, given),
            path=given.path,
            content=given.content,
            author=person(self.author_id),
            expected_hash=documents.ABSENT if given.expected_hash is None else given.expected_hash,
            marks=given.marks,
        )
        return Response(EntrySerializer(entry).data, status=201)

    @extend_schema(responses={200: EntrySerializer, 409: STALE, 413: LARGE})
    def update(self, request: Request, pk: str) -> Response:
        """Replace the text of the document."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: EntrySerializer, 409: STALE, 413: LARGE})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the named fields. New text makes a new version."""
        return self._change(request, replace=False)

    @extend_schema(
        parameters=[OpenApiParameter("expected_hash", str, description="The newest text's hash.")],
        responses={204: None, 409: STALE},
    )
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the document. Its versions can be restored until they are redacted."""
        documents.delete_entry(
            self.get_object(), expected_hash=request.query_params.get("expected_hash")
        )
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        entry: MemoryEntry = self.get_object()
        given = serializers.entry_change(request, entry, replace=replace)
        changed = documents.change_entry(
            entry,
            author=person(self.author_id),
            content=given.content,
            path=given.path,
            marks=given.marks,
            expected_hash=given.expected_hash,
        )
        return Response(EntrySerializer(changed).data)


def find_entry(principal: Principal, entry_id: UUID) -> MemoryEntry:
    """Return a document that the caller may see, deleted or not. Raise NotFound otherwise."""
    rows = MemoryEntry.objects.seen_by(serializers.workspace_reader(principal))
    entry = rows.select_related("current__created_by").filter(pk=entry_id).first()
    if entry is None:
        raise NotFound
    return entry


class VersionViewSet(ListModelMixin, WorkspaceViewSet):
    """The versions of a document."""

    queryset = MemoryVersion.objects.all()
    serializer_class = serializers.MemoryVersionSerializer

    def get_queryset(self) -> Any:
        entry = find_entry(self.principal, self.kwargs["entry_id"])
        return super().get_queryset().filter(entry=entry)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List all versions, newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(operation_id="memory_versions_retrieve")
    def retrieve(self, request: Request, entry_id: UUID, number: int) -> Response:
        """Return one version by its number."""
        version = documents.version_of(find_entry(self.principal, entry_id), number)
        return Response(serializers.MemoryVersionSerializer(version).data)


class EntryBaseView(APIView):
    """Finds the document before it reads the body, so that strangers learn nothing by sending one."""

    parser_classes = [StrictJSONParser]

    def open(self, request: Request, entry_id: UUID) -> tuple[MemoryEntry, UUID | None, Any]:
        principal = principal_of(request)
        entry = find_entry(principal, entry_id)
        if not isinstance(request.data, dict):
            raise Invalid("The body must be a JSON object.")
        return entry, principal.user_id, request.data


class RestoreView(EntryBaseView):
    @extend_schema(
        operation_id="memory_restore",
        request=serializers.WhichVersionSerializer,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID) -> Response:
        """Write an earlier text again, as the newest version. This restores a deleted document."""
        entry, by, body = self.open(request, entry_id)
        return _restored(entry, _number_of(entry, body.get("version")), by, body)


class RestoreVersionView(EntryBaseView):
    @extend_schema(
        operation_id="memory_versions_restore",
        request=None,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID, number: int) -> Response:
        """Write this version's text again, as the newest version."""
        entry, by, body = self.open(request, entry_id)
        return _restored(entry, number, by, body)


class RedactView(EntryBaseView):
    verbs = {"post": "admin"}

    @extend_schema(
        operation_id="memory_redact",
        request=serializers.RedactionSerializer,
        responses={200: EntrySerializer, 409: STALE},
    )
    def post(self, request: Request, entry_id: UUID) -> Response:
        """Remove the text of one version, or of all, permanently. Authors and dates stay on record."""
        entry, by, body = self.open(request, entry_id)
        number = body.get("version")
        changed = documents.redact(
            entry,
            by=by,
            number=None if number is None else documents.whole_number(number, "version"),
            expected_hash=_expected(body),
        )
        return Response(EntrySerializer(changed).data)


def _number_of(entry: MemoryEntry, version: object) -> int:
    """Return the number of a version that is given by number or id."""
    try:
        named = UUID(version) if isinstance(version, str) else None
    except ValueError:
        named = None
    if named is None:
        return documents.whole_number(version, "version")
    number: int | None = entry.versions.filter(pk=named).values_list("number", flat=True).first()
    if number is None:
        raise NotFound(f"There is no version {version}.")
    return number


def _restored(entry: MemoryEntry, number: int, by: UUID | None, body: dict[str, Any]) -> Response:
    changed = documents.restore_version(
        entry, number, author=person(by), expected_hash=_expected(body)
    )
    return Response(EntrySerializer(changed).data)


def _expected(body: dict[str, Any]) -> str | None:
    expected = body.get("expected_hash")
    if not (expected is None or isinstance(expected, str)):
        raise Invalid("expected_hash must be a string.")
    return expected


class SearchView(APIView):
    @extend_schema(
        operation_id="memory_search",
        parameters=[
            OpenApiParameter("q", str, required=True, description="A question or a few words."),
            OpenApiParameter("agent", str, description="Search as this agent would: id or name."),
            OpenApiParameter("session", str, description="Search as this session would: its id."),
            OpenApiParameter("limit", int, description=f"At most {MOST_HITS}; default 10."),
            OpenApiParameter("recency", float, description="The weight of recency, 0 to 1."),
        ],
        responses=whole_page_of(serializers.HitSerializer),
    )
    def get(self, request: Request) -> Response:
        """Search memory. Returns the best hits first, with the parts of each score."""
        params = request.query_params
        reader = serializers.reader_for(
            principal_of(request), agent=params.get("agent"), session=params.get("session")
        )
        recency = _number_param(params.get("recency"), "recency", default=Weights.recency, most=1)
        search = Search(
            limit=int(
                _number_param(params.get("limit"), "limit", default=10, most=MOST_HITS, least=1)
            ),
            weights=Weights(recency=recency),
        )
        with search_slot(reader.workspace_id):
            hits = recall(reader, params.get("q", ""), search)
        return whole_page(serializers.HitSerializer(hits, many=True).data)


def _number_param(
    text: str | None, name: str, *, default: float, most: float, least: float = 0
) -> float:
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise Invalid(f"{name} must be a number.") from None
    if not value >= least:  # Also refuses NaN.
        raise Invalid(f"{name} must be a number from {least:g} to {most:g}.")
    return min(value, most)


# ── Export and import ────────────────────────────────────────────────────────

ZIP = "application/zip"
MOST_BYTES = 20_000_000
IN_MEMORY = 2_000_000
AGENT = OpenApiParameter("agent", str, required=True, description="Whose memory: id or name.")


class ZipRenderer(BaseRenderer):
    """Lets a client accept a zip, which the view writes itself."""

    media_type = ZIP
    format = "zip"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


class ZipParser(BaseParser):
    """Passes the body on as it is, up to a limit."""

    media_type = ZIP

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise RequestDataTooBig
        return BytesIO(raw)


def export_response(owner: Owner, name: str) -> FileResponse:
    """Return the owner's documents as a zip to download under this name."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by the response
    with transfer_slot(owner.workspace_id):
        write_archive(owner, file)
    file.seek(0)
    return FileResponse(file, as_attachment=True, filename=name, content_type=ZIP)


def import_file(owner: Owner, file: IO[bytes], *, by: UUID | None, overwrite: bool) -> Imported:
    """Import every document of a small zip, or none, when it is the workspace's turn."""
    with transfer_slot(owner.workspace_id):
        release_connection()  # Unpacking takes a while.
        done = import_archive(owner, read_archive(file), by=by, overwrite=overwrite)
        embed_missing(owner.workspace_id)
    return done


class ExportView(APIView):
    verbs = {"post": "read"}
    # JSON comes first, for errors: the view writes the zip itself.
    renderer_classes = [JSONRenderer, ZipRenderer]

    @extend_schema(
        operation_id="memory_export",
        parameters=[AGENT],
        responses={(200, ZIP): OpenApiResponse(OpenApiTypes.BINARY, "A zip of Markdown files.")},
    )
    def get(self, request: Request) -> FileResponse:
        """Export the agent's documents, one Markdown file each, to edit with any tool.

        If they are too many for a request, POST starts a workflow that makes the zip.
        """
        owner = _owner(principal_of(request), request, "read")
        if not is_small(owner):
            raise ExportTooLarge
        return export_response(owner, f"memory-{owner.owner_id}.zip")

    @extend_schema(
        operation_id="memory_export_start",
        parameters=[AGENT],
        request=None,
        responses={202: AcceptedSerializer},
    )
    def post(self, request: Request) -> Response:
        """Start a workflow that exports the agent's documents. Its artifact is the zip."""
        principal = principal_of(request)
        started = start_memory_export(principal, _owner(principal, request, "read"))
        return Response(describe_workflow(started), status=202)


class ImportView(APIView):
    parser_classes = [ZipParser, MultiPartParser]
    largest_body = MOST_BYTES

    @extend_schema(
        operation_id="memory_import",
        parameters=[
            AGENT,
            OpenApiParameter(
                "overwrite", bool, description="Also replace documents changed since."
            ),
        ],
        request={ZIP: OpenApiTypes.BINARY, "multipart/form-data": serializers.MemoryImportForm},
        responses={
            200: serializers.MemoryImportedSerializer,
            202: AcceptedSerializer,
            409: STALE,
        },
    )
    def post(self, request: Request) -> Response:
        """Import every document of an archive, or none. Other documents stay.

        An archive with more than a request can take is imported by a workflow, and the answer is 202.
        """
        principal = principal_of(request)
        owner = _owner(principal, request, "run")
        if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_BYTES:
            raise RequestDataTooBig
        overwrite = request.query_params.get("overwrite", "").lower() in {"1", "true"}
        release_connection()  # Parsing a long form takes a while.
        file = _file(request)
        if not is_small_archive(file):
            started = start_memory_import(principal, owner, file, overwrite=overwrite)
            return Response(describe_workflow(started), status=202)
        done = import_file(owner, file, by=principal.user_id, overwrite=overwrite)
        return Response(serializers.MemoryImportedSerializer(done).data)


def _owner(principal: Principal, request: Request, verb: Any) -> Owner:
    workspace_id = authorise(principal, verb)
    ref = request.query_params.get("agent")
    if not ref:
        raise Invalid("Name the agent whose memory it is in `agent`.")
    agent = find_agent(workspace_id, ref)
    return Owner(workspace_id=workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=agent.pk)


def _file(request: Request) -> IO[bytes]:
    """Return the file of a form, or the body itself."""
    body: Any = request.FILES.get("file") if request.FILES else request.data
    if not hasattr(body, "read"):
        raise Invalid("Send the zip as the body, or as `file` in a form.")
    return body
