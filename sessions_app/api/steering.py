"""REST: wake, interrupt and fork a session."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import runtime
from sessions_app.api.body import body_of
from sessions_app.api.door import SessionDoor, client_key, receipt_of
from sessions_app.api.inputs import ForkInput, InterruptInput
from sessions_app.api.serializers import AdmittedSerializer, SessionSerializer
from sessions_app.api.sessions import show_session
from sessions_app.doors import accept_event
from sessions_app.models import SessionEvent
from sessions_app.sessions import fork

WOKEN = inline_serializer("Woken", {"run_id": serializers.UUIDField(allow_null=True)})


class WakeView(SessionDoor):
    @extend_schema(operation_id="sessions_wake", request=None, responses={202: WOKEN})
    def post(self, request: Request, session_id: UUID) -> Response:
        """Have the session reconsidered now. Answers with the run that is active or next."""
        return Response({"run_id": runtime.wake(session_id, principal=self.principal)}, status=202)


class InterruptView(SessionDoor):
    @extend_schema(
        operation_id="sessions_interrupt",
        request=InterruptInput,
        responses={202: AdmittedSerializer},
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Stop what runs or waits for an answer, at once. What was written so far is kept."""
        self.find(session_id)
        payload = body_of(request, InterruptInput)
        admitted = accept_event(
            self.principal,
            session_id,
            type=SessionEvent.Type.USER_INTERRUPT,
            payload=payload,
            dedupe_key=client_key(request),
        )
        return Response(receipt_of(admitted), status=202)


class ForkView(SessionDoor):
    @extend_schema(
        operation_id="sessions_fork", request=ForkInput, responses={201: SessionSerializer}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Make a session that shares the past up to an event, and has its own future."""
        session = self.find(session_id)
        forked = fork(session, body_of(request, ForkInput)["at_seq"], self.principal.user_id)
        return Response(show_session(forked.pk), status=201)
