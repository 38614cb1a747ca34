"""REST endpoints of a session's log: events, messages and the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.db import release_connection
from core.exceptions import Fault
from core.rest import TextField, validate_body
from sessions_app.accept import accept_event
from sessions_app.api import base
from sessions_app.live.frames import Frame, author_name, event_body
from sessions_app.live.hub import open_viewer
from sessions_app.live.reader import Log, SessionLog, parse_cursor
from sessions_app.log.payloads import MAX_DATA_URL, MAX_TEXT_LENGTH
from sessions_app.log.transcript import read_history
from sessions_app.models import Session, SessionEvent
from sessions_app.sessions import find_session
from tenants.access import Principal
from tenants.authentication import principal_of
from tenants.exceptions import TooManySockets
from tenants.sockets import caller_of, counted_socket, open_sockets

#: A comment is sent this often, or proxies and browsers would take silence for a dead connection.
PING_SECONDS = 15.0
RETRY_MILLISECONDS = 1_000


class EventSerializer(serializers.Serializer):
    """One event of a session's log."""

    id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    seq = serializers.IntegerField()
    type = serializers.ChoiceField(choices=SessionEvent.Type.choices)
    payload = serializers.DictField()
    run_id = serializers.UUIDField(allow_null=True, help_text="The run that wrote it.")
    created_at = serializers.DateTimeField()
    processed_at = serializers.DateTimeField(allow_null=True, help_text="When a run processed it.")
    processed_run_id = serializers.UUIDField(allow_null=True)


class AuthoredEventSerializer(EventSerializer):
    """One event of a session's log, with its author."""

    author = serializers.CharField(
        required=False,
        help_text="With `authors`: the person's name, or empty for agents and the server.",
    )


class AdmittedSerializer(serializers.Serializer):
    """An event that was added to the log, and its run."""

    event = EventSerializer()
    run_id = serializers.UUIDField(allow_null=True)


class ReceiptSerializer(serializers.Serializer):
    """What happened to a person's message."""

    state = serializers.ChoiceField(
        choices=["queued", "merged", "steered", "answered", "failed", "withdrawn"]
    )
    run_id = serializers.UUIDField(allow_null=True)


class MessageSerializer(serializers.Serializer):
    """One message of the conversation, with its latest text."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    role = serializers.CharField(help_text="`user` or `assistant`.")
    text = serializers.CharField()
    attachments = serializers.ListField(child=serializers.DictField())
    edited = serializers.BooleanField()
    model = serializers.CharField(allow_null=True)
    usage = serializers.DictField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    receipt = ReceiptSerializer(allow_null=True)
    created_at = serializers.DateTimeField()


class EventInput(base.QueueOptions):
    type = TextField(max_length=64, help_text="One of the `user.*` types.")
    payload = base.ObjectField(
        required=False,
        default=dict,
        help_text="For `user.message`: `text`, `attachments` and `overrides`, as for messages.",
    )


class AttachmentInput(serializers.Serializer):
    """A file of the session by its `path` and `name`, an upload by its `file_id`, or a data URL."""

    type = serializers.ChoiceField(choices=["image", "file"], required=False)
    name = TextField(max_length=255, required=False)
    path = TextField(max_length=1000, required=False)
    media_type = TextField(max_length=100, required=False, allow_blank=True)
    size = serializers.IntegerField(min_value=0, max_value=2**53, required=False)
    file_id = TextField(max_length=80, required=False, help_text="The id that an upload returned.")
    url = TextField(max_length=MAX_DATA_URL, required=False, help_text="`data:image/png;base64,…`")
    data = TextField(  # type: ignore[assignment]
        max_length=MAX_DATA_URL, required=False, help_text="The content in base64."
    )


class MessageInput(base.QueueOptions):
    text = TextField(max_length=MAX_TEXT_LENGTH, trim_whitespace=False)
    attachments = AttachmentInput(many=True, required=False, help_text="At most 20.")
    overrides = base.OverridesSerializer(required=False, allow_null=True)


class InterruptInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    run_id = serializers.UUIDField(
        required=False, help_text="Stop this run only. 409 `run_over` if it is over."
    )


class AcceptView(base.SessionView):
    """A view that appends an event of the caller to the log."""

    #: A message may carry a file as a data URL.
    largest_body = MAX_DATA_URL + 4 * MAX_TEXT_LENGTH

    def accept(self, session: Session, **event: Any) -> Response:
        key = base.client_dedupe_key(self.request)
        accepted = accept_event(self.principal, session, dedupe_key=key, **event)
        stored = SessionEvent.objects.get(pk=accepted.event_id)
        run_id = accepted.run_id and str(accepted.run_id)
        return Response({"event": event_body(stored), "run_id": run_id}, status=202)


class EventsView(AcceptView):
    @extend_schema(
        operation_id="sessions_events_list",
        parameters=[
            *base.LOG_PARAMETERS,
            OpenApiParameter("authors", OpenApiTypes.BOOL, description="Include each author."),
        ],
        responses=base.log_page_schema(AuthoredEventSerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List events after a seq, in order."""
        session = self.get_session(session_id)
        log_range = base.LogRange.from_request(request)
        events = session.events.after(log_range.after).select_related("created_by")
        rows = [(event, event_body(event)) for event in events[: log_range.limit + 1]]
        if request.query_params.get("authors", "") in {"1", "true"}:
            rows = [(event, {**body, "author": author_name(event)}) for event, body in rows]
        return base.log_page(request, log_range, [body for _, body in rows])

    @extend_schema(
        operation_id="sessions_events_create",
        request=EventInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Send a message, an interrupt, a tool confirmation or a tool result."""
        session = self.get_session(session_id)
        fields = validate_body(request, EventInput)
        return self.accept(session, **fields)


class MessagesView(AcceptView):
    @extend_schema(
        operation_id="sessions_messages_list",
        parameters=base.LOG_PARAMETERS,
        responses=base.log_page_schema(MessageSerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """List messages with their latest text, and what happened to each."""
        session = self.get_session(session_id)
        log_range = base.LogRange.from_request(request)
        messages = read_history(session, after=log_range.after, limit=log_range.limit + 1)
        return base.log_page(request, log_range, list(MessageSerializer(messages, many=True).data))

    @extend_schema(
        operation_id="sessions_messages_create",
        request=MessageInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Send a message. The answer arrives on the stream and in the run's result."""
        session = self.get_session(session_id)
        payload = validate_body(request, MessageInput)
        options = {name: payload.pop(name) for name in ("on_busy", "priority")}
        return self.accept(session, type=SessionEvent.Type.USER_MESSAGE, payload=payload, **options)


class InterruptView(AcceptView):
    @extend_schema(
        operation_id="sessions_interrupt",
        request=InterruptInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Stop the run or the pending question at once. What was written so far is kept."""
        session = self.get_session(session_id)
        payload = validate_body(request, InterruptInput)
        return self.accept(session, type=SessionEvent.Type.USER_INTERRUPT, payload=payload)


class EventStreamRenderer(BaseRenderer):
    """Lets a client accept `text/event-stream`. The view writes the body itself."""

    media_type = "text/event-stream"
    format = "event-stream"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        return data


#: The OpenAPI description that all streams share.
STREAM_SCHEMA: dict[str, Any] = {
    "parameters": [
        OpenApiParameter("after", OpenApiTypes.INT, description="Begin after this seq."),
        OpenApiParameter(
            "Last-Event-ID",
            OpenApiTypes.INT,
            OpenApiParameter.HEADER,
            description="The same, as browsers send it when they reconnect. Overrides `after`.",
        ),
    ],
    "responses": {
        (200, "text/event-stream"): OpenApiResponse(
            OpenApiTypes.STR, description="Frames. `id` is the seq of a stored event."
        )
    },
}


class LogStream(APIView):
    """Sends the same frames as the socket, as Server-Sent Events, until the client leaves."""

    renderer_classes = [EventStreamRenderer, JSONRenderer]

    def stream(self, followed: Log) -> StreamingHttpResponse:
        cursor = self.request.headers.get("Last-Event-ID") or self.request.GET.get("after", "0")
        after, principal = parse_cursor(cursor), principal_of(self.request)
        if open_sockets.is_full(caller_of(principal)):
            raise TooManySockets
        # The response lasts long; this thread's connection must serve other requests meanwhile.
        release_connection()
        return StreamingHttpResponse(
            server_sent_events(followed, after=after, principal=principal),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        )


class SessionStream(LogStream):
    @extend_schema(operation_id="sessions_stream", **STREAM_SCHEMA)
    def get(self, request: Request, session_id: UUID) -> StreamingHttpResponse:
        find_session(principal_of(request), session_id)
        return self.stream(SessionLog(session_id=session_id))


async def server_sent_events(
    followed: Log, *, after: int, principal: Principal
) -> AsyncIterator[bytes]:
    """Yield frames as Server-Sent Events. The stream of a dropped viewer ends; browsers resume."""
    try:
        async with (
            counted_socket(principal),
            open_viewer(followed, after=after, principal=principal) as viewer,
        ):
            yield b"retry: %d\n\n" % RETRY_MILLISECONDS
            while True:
                frames = await viewer.next(PING_SECONDS)
                yield b"".join(map(_encode_sse, frames)) or b": ping\n\n"
    except Fault as fault:
        yield f": {fault.code}\n\n".encode()


def _encode_sse(frame: Frame) -> bytes:
    if frame.seq is None:
        return f"data: {frame.text}\n\n".encode()
    return f"id: {frame.seq}\ndata: {frame.text}\n\n".encode()
