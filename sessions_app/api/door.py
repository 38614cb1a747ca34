"""What every REST door of one session extends: who asks, and for which session."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.views import APIView

from sessions_app import doors
from sessions_app.doors import Admitted, find_session
from sessions_app.frames import event_body
from sessions_app.models import Session, SessionEvent
from tenants.access import Principal
from tenants.api.parsing import StrictJSONParser
from tenants.authentication import principal_of
from tenants.permissions import verb_of


class SessionDoor(APIView):
    """Finds the session before it reads the body: a stranger learns nothing by sending one."""

    parser_classes = [StrictJSONParser]

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def find(self, session_id: UUID) -> Session:
        return find_session(self.principal, session_id, verb_of(self.request, self))


def client_key(request: Request) -> str | None:
    """The caller's Idempotency-Key for the log.

    The stored answer makes a repetition cheap; this makes it safe even when the answer was lost.
    """
    return doors.client_key(principal_of(request), request.headers.get("Idempotency-Key"))


def receipt_of(admitted: Admitted) -> dict[str, object]:
    """What a client hears about an event that is in the log now."""
    event = SessionEvent.objects.get(pk=admitted.event_id)
    return {"event": event_body(event), "run_id": admitted.run_id and str(admitted.run_id)}
