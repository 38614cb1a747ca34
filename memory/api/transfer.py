"""REST views: export and import of an agent's memory as a zip of Markdown files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any

from django.core.exceptions import RequestDataTooBig
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import find_agent
from core.exceptions import Invalid
from memory.api.documents import STALE
from memory.archive import import_archive, read_archive, write_archive
from memory.models import MemoryEntry
from memory.ownership import Owner
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

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


class MemoryImportForm(serializers.Serializer):
    file = serializers.FileField(help_text="A zip as the export creates it.")


class MemoryImportedSerializer(serializers.Serializer):
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()


class ExportView(APIView):
    renderer_classes = [ZipRenderer, JSONRenderer]

    @extend_schema(
        operation_id="memory_export",
        parameters=[AGENT],
        responses={(200, ZIP): OpenApiResponse(OpenApiTypes.BINARY, "A zip of Markdown files.")},
    )
    def get(self, request: Request) -> FileResponse:
        """Export the agent's documents, one Markdown file each, to edit with any tool."""
        owner = _owner(principal_of(request), request, "read")
        file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by the response
        write_archive(owner, file)
        file.seek(0)
        return FileResponse(
            file, as_attachment=True, filename=f"memory-{owner.owner_id}.zip", content_type=ZIP
        )


class ImportView(APIView):
    parser_classes = [ZipParser, MultiPartParser]

    @extend_schema(
        operation_id="memory_import",
        parameters=[
            AGENT,
            OpenApiParameter(
                "overwrite", bool, description="Also replace documents changed since."
            ),
        ],
        request={ZIP: OpenApiTypes.BINARY, "multipart/form-data": MemoryImportForm},
        responses={200: MemoryImportedSerializer, 409: STALE},
    )
    def post(self, request: Request) -> Response:
        """Import every document of an archive, or none. Other documents stay."""
        principal = principal_of(request)
        owner = _owner(principal, request, "run")
        if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_BYTES:
            raise RequestDataTooBig
        overwrite = request.query_params.get("overwrite", "").lower() in {"1", "true"}
        done = import_archive(
            owner,
            read_archive(_file(request)),
            by=principal.user_id,
            overwrite=overwrite,
        )
        return Response(MemoryImportedSerializer(done).data)


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
