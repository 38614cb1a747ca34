"""The session's stream as Server-Sent Events: the same frames as on the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from config.faults import Fault
from sessions_app.doors import find_session
from sessions_app.encoding import Frame
from sessions_app.hub import watching
from sessions_app.reader import Log, SessionLog, cursor_in
from tenants.access import Principal
from tenants.authentication import principal_of
from tenants.off_loop import let_go

#: Silence that proxies and browsers would take for a dead connection is broken this often.
PING_SECONDS = 15.0
RETRY_MILLISECONDS = 1_000


class EventStreamRenderer(BaseRenderer):
    """Lets a client ask for `text/event-stream`; the view writes it itself."""

    media_type = "text/event-stream"
    format = "event-stream"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


#: What the OpenAPI document says of every stream.
STREAM_SCHEMA: dict[str, Any] = {
    "parameters": [
        OpenApiParameter("after", OpenApiTypes.INT, description="Begin after this seq."),
        OpenApiParameter(
            "Last-Event-ID",
            OpenApiTypes.INT,
            OpenApiParameter.HEADER,
            description="The same, as browsers send it when they reconnect; it goes first.",
        ),
    ],
    "responses": {
        (200, "text/event-stream"): OpenApiResponse(
            OpenApiTypes.STR, description="Frames; `id` is the seq of a stored event."
        )
    },
}


class LogStream(APIView):
    """Every stored event after a cursor, then what is new, until the client leaves."""

    renderer_classes = [EventStreamRenderer, JSONRenderer]

    def stream(self, followed: Log) -> StreamingHttpResponse:
        asked = self.request.headers.get("Last-Event-ID") or self.request.GET.get("after", "0")
        after, principal = cursor_in(asked), principal_of(self.request)
        # The answer lasts; its thread's connection is for those who come meanwhile.
        let_go()
        return StreamingHttpResponse(
            events(followed, after=after, principal=principal),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        )


class SessionStream(LogStream):
    @extend_schema(operation_id="sessions_stream", **STREAM_SCHEMA)
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        find_session(principal_of(request), session_id)
        return self.stream(SessionLog(session_id=session_id))


async def events(followed: Log, *, after: int, principal: Principal) -> AsyncIterator[bytes]:
    """The frames as lines. A viewer that is dropped sees the end, and its browser resumes."""
    try:
        async with watching(followed, after=after, principal=principal) as viewer:
            yield b"retry: %d\n\n" % RETRY_MILLISECONDS
            while True:
                frames = await viewer.next(PING_SECONDS)
                yield b"".join(map(lines, frames)) or b": ping\n\n"
    except Fault as fault:
        yield f": {fault.code}\n\n".encode()


def lines(frame: Frame) -> bytes:
    if frame.seq is None:
        return f"data: {frame.text}\n\n".encode()
    return f"id: {frame.seq}\ndata: {frame.text}\n\n".encode()
