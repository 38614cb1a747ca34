"""REST endpoints of a session's context: preview, compaction, snapshots and undo."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.pagination import whole_page, whole_page_of
from core.rest import validate_body
from sessions_app import runtime
from sessions_app.api.base import SessionView
from sessions_app.context.compaction.cycle import MAX_KEPT, MIN_TARGET
from sessions_app.context.compaction.snapshots import undo_snapshot
from sessions_app.context.preview import preview
from sessions_app.models import ContextSnapshot

#: Only the newest snapshots are listed. Older ones cannot be undone.
MAX_SNAPSHOTS = 200
#: In the order in which the model reads them, tools last. Empty parts are left out.
PARTS = [
    "instructions",
    "skills",
    "more_tools",
    "pinned_memory",
    "attached_resources",
    "recalled_memory",
    "summary",
    "loaded_tools",
    "messages",
    "tools",
]


class PartSerializer(serializers.Serializer):
    name = serializers.ChoiceField(choices=PARTS)
    tokens = serializers.IntegerField()
    resent = serializers.IntegerField(
        help_text="The tokens that are sent anew, and not read from the provider's cache, when this "
        "part changes. Zero for parts that only grow."
    )
    content = serializers.JSONField(help_text="A text, or a list of items with their tokens.")


class ContextSerializer(serializers.Serializer):
    provider = serializers.CharField()
    model = serializers.CharField()
    window = serializers.IntegerField(help_text="Tokens that the model accepts in total.")
    budget = serializers.IntegerField(
        help_text="Tokens of the window that the context may use. The rest is for the answer."
    )
    threshold = serializers.IntegerField(
        help_text="The context is compacted when it reaches this many tokens."
    )
    snapshot_id = serializers.UUIDField(
        allow_null=True, help_text="The snapshot whose summary is among the parts."
    )
    tokens = serializers.IntegerField(help_text="The estimated size of the context.")
    parts = PartSerializer(many=True)


class ContextView(SessionView):
    @extend_schema(operation_id="sessions_context", responses=ContextSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        """Preview what the model would see if a run began now, by part, with token counts."""
        session = self.get_session(session_id)
        return Response(ContextSerializer(preview(session, self.principal.user_id)).data)


class CompactInput(serializers.Serializer):
    keep_recent_messages = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_KEPT,
        help_text="The number of recent messages to keep whole. Default: a share of the window.",
    )
    target_token_count = serializers.IntegerField(
        required=False,
        min_value=MIN_TARGET,
        max_value=2**31 - 1,
        help_text="The approximate size of the conversation after compaction, in tokens.",
    )


COMPACTING = inline_serializer(
    "Compacting", {"run_id": serializers.UUIDField(), "status": serializers.CharField()}
)


class CompactView(SessionView):
    @extend_schema(
        operation_id="sessions_compact", request=CompactInput, responses={202: COMPACTING}
    )
    def post(self, request: Request, session_id: UUID) -> Response:
        """Queue a run that compacts the context. Wait for the run to see its result."""
        session = self.get_session(session_id)
        options = validate_body(request, CompactInput)
        run = runtime.compact(session, principal=self.principal, **options)
        return Response({"run_id": run.pk, "status": run.status}, status=202)


class SnapshotSerializer(serializers.ModelSerializer):
    session_id = serializers.UUIDField(read_only=True)
    run_id = serializers.UUIDField(read_only=True, allow_null=True)
    previous_id = serializers.UUIDField(read_only=True, allow_null=True)
    is_active = serializers.BooleanField(
        read_only=True, help_text="The context begins with this snapshot, and it can be undone."
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


class SnapshotsView(SessionView):
    @extend_schema(operation_id="sessions_snapshots", responses=whole_page_of(SnapshotSerializer))
    def get(self, request: Request, session_id: UUID) -> Response:
        """List the snapshots of the context, newest first."""
        session = self.get_session(session_id)
        rows = ContextSnapshot.objects.filter(session=session).order_by("-id")
        snapshots = list(rows[:MAX_SNAPSHOTS])
        active = next((one.pk for one in snapshots if one.undone_at is None), None)
        return whole_page([_serialize(one, is_active=one.pk == active) for one in snapshots])


class UndoView(SessionView):
    @extend_schema(operation_id="sessions_undo", request=None, responses=SnapshotSerializer)
    def post(self, request: Request, session_id: UUID, snapshot_id: UUID) -> Response:
        """Undo the newest snapshot. Automatic compaction then pauses for a while."""
        session = self.get_session(session_id)
        undone = undo_snapshot(session, snapshot_id, self.principal.user_id)
        return Response(_serialize(undone, is_active=False))


def _serialize(snapshot: ContextSnapshot, *, is_active: bool) -> dict[str, object]:
    snapshot.is_active = is_active  # type: ignore[attr-defined]
    return dict(SnapshotSerializer(snapshot).data)
