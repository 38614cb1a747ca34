"""REST: the conversation of a session."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.body import body_of
from sessions_app.api.door import SessionDoor, client_key, receipt_of
from sessions_app.api.inputs import MessageInput
from sessions_app.api.pages import PLACE, Place, log_page, log_page_of
from sessions_app.api.serializers import AdmittedSerializer, MessageSerializer
from sessions_app.doors import accept_event
from sessions_app.history import read_history
from sessions_app.models import SessionEvent


class MessagesView(SessionDoor):
    @extend_schema(
        operation_id="sessions_messages_list",
        parameters=PLACE,
        responses=log_page_of(MessageSerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """What was said, in its newest wording, with what became of each message."""
        session = self.find(session_id)
        place = Place.in_request(request)
        said = read_history(session, after=place.after, limit=place.limit + 1)
        return log_page(request, place, list(MessageSerializer(said, many=True).data))

    @extend_schema(
        operation_id="sessions_messages_create",
        request=MessageInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Send a message. The answer arrives on the stream, and with the run."""
        self.find(session_id)
        asked = body_of(request, MessageInput)
        manner = {name: asked.pop(name) for name in ("on_busy", "priority")}
        admitted = accept_event(
            self.principal,
            session_id,
            type=SessionEvent.Type.USER_MESSAGE,
            payload=asked,
            dedupe_key=client_key(request),
            **manner,
        )
        return Response(receipt_of(admitted), status=202)
