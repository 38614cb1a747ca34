"""REST: compact a session's context, look at its snapshots, undo the newest."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import runtime
from sessions_app.api.body import body_of
from sessions_app.api.door import SessionDoor
from sessions_app.api.inputs import CompactInput
from sessions_app.compaction.snapshots import undo
from sessions_app.models import ContextSnapshot
from tenants.api.whole import whole_page, whole_page_of

#: The newest ones; a session has no more of them that anybody could use.
MOST = 200


class SnapshotSerializer(serializers.ModelSerializer):
    session_id = serializers.UUIDField(read_only=True)
    run_id = serializers.UUIDField(read_only=True, allow_null=True)
    previous_id = serializers.UUIDField(read_only=True, allow_null=True)
    is_active = serializers.BooleanField(
        read_only=True, help_text="The context begins with it now, and it can be undone."
    )

    class Meta:
        model = ContextSnapshot
        fields = [
            "id",
            "session_id",
            "run_id",
            "previous_id",
            "trigger",
            "first_seq",
            "last_seq",
            "first_kept_seq",
            "summary",
            "model",
            "tokens_before",
            "tokens_after",
            "memory_ids",
            "is_active",
            "undone_at",
            "undone_by",
            "created_by",
            "created_at",
        ]
        read_only_fields = fields


COMPACTING = inline_serializer(
    "Compacting", {"run_id": serializers.UUIDField(), "status": serializers.CharField()}
)


class CompactView(SessionDoor):
    @extend_schema(
        operation_id="sessions_compact", request=CompactInput, responses={202: COMPACTING}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Have the context compacted, in its turn. Wait for the run to learn what came of it."""
        session = self.find(session_id)
        run = runtime.compact(session, principal=self.principal, **body_of(request, CompactInput))
        return Response({"run_id": run.pk, "status": run.status}, status=202)


class SnapshotsView(SessionDoor):
    @extend_schema(operation_id="sessions_snapshots", responses=whole_page_of(SnapshotSerializer))
    def get(self, request: Request, session_id: UUID) -> Response:
        """Every snapshot of the context, the newest first."""
        session = self.find(session_id)
        found = list(ContextSnapshot.objects.filter(session=session).order_by("-id")[:MOST])
        return whole_page([shown(one, found) for one in found])


class UndoView(SessionDoor):
    @extend_schema(operation_id="sessions_undo", request=None, responses=SnapshotSerializer)
    def post(self, request: Request, session_id: UUID, snapshot_id: UUID) -> Response:
        """Put back what the newest snapshot stands for. Compaction by itself then pauses a while."""
        session = self.find(session_id)
        return Response(shown(undo(session, snapshot_id, self.principal.user_id), []))


def shown(snapshot: ContextSnapshot, among: list[ContextSnapshot]) -> dict[str, object]:
    newest = next((one for one in among if one.undone_at is None), None)
    snapshot.is_active = newest is not None and newest.pk == snapshot.pk  # type: ignore[attr-defined]
    return dict(SnapshotSerializer(snapshot).data)
