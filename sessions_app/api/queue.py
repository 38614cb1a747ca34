"""REST: the messages that wait in a session's lane."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from config.faults import NotFound
from sessions_app.api.body import body_of
from sessions_app.api.door import SessionDoor
from sessions_app.api.inputs import QueueChange
from sessions_app.api.serializers import QueuedSerializer
from sessions_app.doors import send_waiting
from sessions_app.models import Run, Session
from sessions_app.queue import edit_run, list_queue, move_run, remove_run
from tenants.api.whole import whole_page, whole_page_of

QUEUE = whole_page_of(
    QueuedSerializer,
    last_seq=serializers.IntegerField(
        help_text="Whoever has read the log up to here knows why a message waits no more."
    ),
)


def show_queue(session: Session) -> Response:
    """What waits, then where the log stands: so it stands behind nothing that happened to the queue."""
    results = QueuedSerializer(list_queue(session), many=True).data
    session.refresh_from_db(fields=["last_seq"])
    return whole_page(results, last_seq=session.last_seq)


class ChangedSerializer(QueuedSerializer):
    """The message as it waits now, if no run took it meanwhile, and the queue around it."""

    results = QueuedSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    last_seq = serializers.IntegerField()

    def get_fields(self) -> dict[str, serializers.Field]:
        """What tells of the message itself is there as long as it waits."""
        fields: dict[str, serializers.Field] = super().get_fields()
        for name in QueuedSerializer().get_fields():
            fields[name].required = False
        return fields


class QueueView(SessionDoor):
    @extend_schema(operation_id="sessions_queue_list", responses=QUEUE)
    def get(self, request: Request, session_id: UUID) -> Response:
        """What waits, in the order in which it will run."""
        return show_queue(self.find(session_id))


class QueuedView(SessionDoor):
    def find_run(self, session_id: UUID, run_id: UUID) -> Session:
        session = self.find(session_id)
        if not Run.objects.filter(session=session, pk=run_id).exists():
            raise NotFound
        return session

    @extend_schema(
        operation_id="sessions_queue_change",
        request=QueueChange,
        responses=ChangedSerializer,
    )
    def patch(self, request: Request, session_id: UUID, run_id: UUID) -> Response:
        """Reword a message that no run has taken yet, move it, or send it now. Answers with it, as
        long as it waits, and the whole queue."""
        session = self.find_run(session_id, run_id)
        asked = body_of(request, QueueChange)
        with transaction.atomic():
            if "text" in asked:
                edit_run(session, run_id, asked["text"], self.principal.user_id)
            if "position" in asked:
                move_run(session, run_id, asked["position"])
            if "on_busy" in asked:
                send_waiting(self.principal, session_id, run_id, asked["on_busy"])
        queue = show_queue(session)
        changed = [one for one in queue.data["results"] if one["run_id"] == str(run_id)]
        return Response({**(changed[0] if changed else {}), **queue.data})

    @extend_schema(operation_id="sessions_queue_remove", responses={204: None})
    def delete(self, request: Request, session_id: UUID, run_id: UUID) -> Response:
        """Take a message back that no run has taken yet."""
        remove_run(self.find_run(session_id, run_id), run_id, self.principal.user_id)
        return Response(status=204)
