"""REST endpoints that export a session's log as JSONL and import it as a new session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from typing import IO, Any
from uuid import UUID

import orjson
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import UploadedFile
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import find_agent
from core.db import read, release_connection
from core.exceptions import Invalid
from sessions_app.api.base import SessionView
from sessions_app.api.sessions import SessionSerializer, serialize_session
from sessions_app.live.frames import event_body
from sessions_app.log.transfer import import_session
from sessions_app.models import Session, SessionEvent
from tenants.access import authorise
from tenants.authentication import principal_of

JSONL = "application/x-ndjson"
PAGE_ROWS = 500
MAX_IMPORT_BYTES = 100 * 1024 * 1024
NAME_AGENT = "Name the agent of the new session, as in sessions/import/?agent=NAME."


class JsonlRenderer(BaseRenderer):
    """Lets a client accept `application/x-ndjson`. The view writes the body itself."""

    media_type = JSONL
    format = "jsonl"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


class JsonlParser(BaseParser):
    """Returns the body unparsed, for any content type: JSONL has no single media type."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return stream


class ExportView(SessionView):
    renderer_classes = [JsonlRenderer, JSONRenderer]

    @extend_schema(
        operation_id="sessions_export",
        responses={(200, JSONL): OpenApiResponse(OpenApiTypes.STR, "One event per line.")},
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """Export the whole log, one event per line."""
        session = self.get_session(session_id)
        release_connection()
        return StreamingHttpResponse(
            _export_lines(session.pk),
            content_type=JSONL,
            headers={"Content-Disposition": f'attachment; filename="session-{session.pk}.jsonl"'},
        )


async def _export_lines(session_id: UUID) -> AsyncIterator[bytes]:
    """Yield the log a page at a time, so that neither the log nor a connection is held."""
    after = 0
    while page := await read(_page, session_id, after):
        yield b"".join(orjson.dumps(event_body(event)) + b"\n" for event in page)
        after = page[-1].seq


def _page(session_id: UUID, after: int) -> list[SessionEvent]:
    return list(SessionEvent.objects.filter(session_id=session_id).after(after)[:PAGE_ROWS])


class ImportForm(serializers.Serializer):
    agent = serializers.CharField(required=False, help_text="May be in the query instead.")
    title = serializers.CharField(required=False)
    file = serializers.FileField(help_text="One event per line.")


class ImportView(APIView):
    parser_classes = [MultiPartParser, JsonlParser]

    @extend_schema(
        operation_id="sessions_import",
        parameters=[
            OpenApiParameter(
                "agent",
                str,
                description="The id or name of the new session's agent. "
                "Default: the agent of the exported session.",
            ),
            OpenApiParameter("title", str, description="The new session's title."),
        ],
        request={JSONL: OpenApiTypes.STR, "multipart/form-data": ImportForm},
        responses={201: SessionSerializer},
    )
    def post(self, request: Request) -> Response:
        """Create a session from an exported log. All events count as processed: nothing runs."""
        principal = principal_of(request)
        workspace_id = authorise(principal, "run")
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_IMPORT_BYTES:
            raise RequestDataTooBig
        form = {**request.query_params.dict(), **_form_fields(request)}
        lines = _import_lines(request)
        if not form.get("agent"):
            first = next(lines, b"")
            lines = chain([first], lines)
            form["agent"] = _agent_of_export(workspace_id, first)
        session = import_session(
            find_agent(workspace_id, form["agent"]),
            lines,
            title=_title(form.get("title", "")),
            created_by_id=principal.user_id,
        )
        return Response(serialize_session(session.pk), status=201)


def _agent_of_export(workspace_id: UUID, line: bytes) -> str:
    """Return the id of the agent whose session this line was exported from."""
    try:
        session_id = UUID(orjson.loads(line)["session_id"])
    except (ValueError, TypeError, LookupError):
        raise Invalid(f"The first line is not an exported event. {NAME_AGENT}") from None
    session = Session.objects.for_workspace(workspace_id).filter(pk=session_id).first()
    if session is None:
        raise Invalid(f"The exported session is not in this workspace. {NAME_AGENT}")
    return str(session.agent_id)


def _title(text: str) -> str:
    return serializers.CharField(max_length=200, allow_blank=True).run_validation(text)


def _form_fields(request: Request) -> dict[str, str]:
    data = request.data.dict() if hasattr(request.data, "dict") else {}
    return {name: text for name, text in data.items() if isinstance(text, str)}


def _import_lines(request: Request) -> Iterator[bytes]:
    """Return the lines of the uploaded file, or of the body itself."""
    if not request.FILES:
        body: Any = request.data
        return iter(body) if hasattr(body, "readline") else iter(())
    file: UploadedFile | None = request.FILES.get("file")
    if file is None:
        raise Invalid("Send the export in the form field `file`.")
    return iter(file)
