"""REST: the log of a session, and every `user.*` event into it."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.body import body_of
from sessions_app.api.door import SessionDoor, client_key, receipt_of
from sessions_app.api.inputs import EventInput
from sessions_app.api.pages import PLACE, Place, log_page, log_page_of
from sessions_app.api.serializers import AdmittedSerializer, AuthoredEventSerializer
from sessions_app.doors import accept_event
from sessions_app.frames import author_of, event_body


class EventsView(SessionDoor):
    @extend_schema(
        operation_id="sessions_events_list",
        parameters=[
            *PLACE,
            OpenApiParameter("authors", OpenApiTypes.BOOL, description="Say who wrote each, too."),
        ],
        responses=log_page_of(AuthoredEventSerializer),
    )
    def get(self, request: Request, session_id: UUID) -> Response:
        """Events in order, after a seq."""
        session = self.find(session_id)
        place = Place.in_request(request)
        events = session.events.after(place.after).select_related("created_by")
        shown = [(event, event_body(event)) for event in events[: place.limit + 1]]
        if request.query_params.get("authors", "") in {"1", "true"}:
            shown = [(event, {**body, "author": author_of(event)}) for event, body in shown]
        return log_page(request, place, [body for _, body in shown])

    @extend_schema(
        operation_id="sessions_events_create",
        request=EventInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Send a message, an interrupt, a confirmation or a result; what it starts, starts."""
        self.find(session_id)
        asked = body_of(request, EventInput)
        admitted = accept_event(self.principal, session_id, dedupe_key=client_key(request), **asked)
        return Response(receipt_of(admitted), status=202)
