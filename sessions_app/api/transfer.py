"""REST: take a session's log along, and bring one back."""

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
from config.faults import Invalid
from sessions_app.api.door import SessionDoor
from sessions_app.api.serializers import SessionSerializer
from sessions_app.api.sessions import show_session
from sessions_app.frames import event_body
from sessions_app.models import Session, SessionEvent
from sessions_app.transcript import import_session
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.off_loop import let_go, read

JSONL = "application/x-ndjson"
PAGE = 500
WHOSE = "Say whose session it becomes, as in sessions/import/?agent=NAME."
MOST_BYTES = 100 * 1024 * 1024


class JsonlRenderer(BaseRenderer):
    """Lets a client ask for `application/x-ndjson`; the view writes it itself."""

    media_type = JSONL
    format = "jsonl"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


class JsonlParser(BaseParser):
    """Hands the body on as it is, whatever the client calls it: JSONL has no one name."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return stream


class ExportView(SessionDoor):
    renderer_classes = [JsonlRenderer, JSONRenderer]

    @extend_schema(
        operation_id="sessions_export",
        responses={(200, JSONL): OpenApiResponse(OpenApiTypes.STR, "One event a line.")},
    )
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        """The whole log, one event a line."""
        session = self.find(session_id)
        let_go()
        return StreamingHttpResponse(
            lines(session.pk),
            content_type=JSONL,
            headers={"Content-Disposition": f'attachment; filename="session-{session.pk}.jsonl"'},
        )


async def lines(session_id: UUID) -> AsyncIterator[bytes]:
    """The log as it is written out, a page at a time: neither it nor a connection is held."""
    after = 0
    while page := await read(_page, session_id, after):
        yield b"".join(orjson.dumps(event_body(event)) + b"\n" for event in page)
        after = page[-1].seq


def _page(session_id: UUID, after: int) -> list[SessionEvent]:
    return list(SessionEvent.objects.filter(session_id=session_id).after(after)[:PAGE])


class ImportForm(serializers.Serializer):
    agent = serializers.CharField(required=False, help_text="Here or in the query.")
    title = serializers.CharField(required=False)
    file = serializers.FileField(help_text="One event a line.")


class ImportView(APIView):
    parser_classes = [MultiPartParser, JsonlParser]

    @extend_schema(
        operation_id="sessions_import",
        parameters=[
            OpenApiParameter(
                "agent",
                str,
                description="Whose session it becomes: id or name. "
                "Without it, that of the agent whose session was exported.",
            ),
            OpenApiParameter("title", str, description="What to call it."),
        ],
        request={JSONL: OpenApiTypes.STR, "multipart/form-data": ImportForm},
        responses={201: SessionSerializer},
    )
    def post(self, request: Request) -> Response:
        """Make a session of an exported log. All of it counts as processed: nothing runs."""
        principal = principal_of(request)
        workspace_id = authorise(principal, "run")
        if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_BYTES:
            raise RequestDataTooBig
        form = {**request.query_params.dict(), **_form(request)}
        lines = _lines(request)
        if not form.get("agent"):
            first = next(lines, b"")
            lines = chain([first], lines)
            form["agent"] = _exported_from(workspace_id, first)
        session = import_session(
            find_agent(workspace_id, form["agent"]),
            lines,
            title=_title(form.get("title", "")),
            created_by_id=principal.user_id,
        )
        return Response(show_session(session.pk), status=201)


def _exported_from(workspace_id: UUID, line: bytes) -> str:
    """The agent whose session this line of an export is of."""
    try:
        session_id = UUID(orjson.loads(line)["session_id"])
    except (ValueError, TypeError, LookupError):
        raise Invalid(f"The first line is not an event of an export. {WHOSE}") from None
    session = Session.objects.for_workspace(workspace_id).filter(pk=session_id).first()
    if session is None:
        raise Invalid(f"The session that this was exported from is not here. {WHOSE}")
    return str(session.agent_id)


def _title(text: str) -> str:
    return serializers.CharField(max_length=200, allow_blank=True).run_validation(text)


def _form(request: Request) -> dict[str, str]:
    """The fields that came beside a file."""
    given = request.data.dict() if hasattr(request.data, "dict") else {}
    return {name: text for name, text in given.items() if isinstance(text, str)}


def _lines(request: Request) -> Iterator[bytes]:
    """Of the file, or of the body itself."""
    if not request.FILES:
        body: Any = request.data
        return iter(body) if hasattr(body, "readline") else iter(())
    file: UploadedFile | None = request.FILES.get("file")
    if file is None:
        raise Invalid("Send the export as `file`.")
    return iter(file)
