"""REST: what the model would see now."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.door import SessionDoor
from sessions_app.preview import preview

#: In the order in which a model reads them, tools last. Empty ones are left out.
PARTS = [
    "instructions",
    "skills",
    "pinned_memory",
    "recalled_memory",
    "summary",
    "messages",
    "tools",
]


class PartSerializer(serializers.Serializer):
    name = serializers.ChoiceField(choices=PARTS)
    tokens = serializers.IntegerField()
    content = serializers.JSONField(help_text="A text, or a list with the tokens of each.")


class ContextSerializer(serializers.Serializer):
    provider = serializers.CharField()
    model = serializers.CharField()
    window = serializers.IntegerField(help_text="Tokens that the model takes in all.")
    budget = serializers.IntegerField(
        help_text="Tokens of it that may be used; the rest is for the answer."
    )
    threshold = serializers.IntegerField(help_text="From this many on, the context is compacted.")
    snapshot_id = serializers.UUIDField(
        allow_null=True, help_text="The snapshot whose summary is among the parts."
    )
    tokens = serializers.IntegerField(help_text="An estimate of what is used.")
    parts = PartSerializer(many=True)


class ContextView(SessionDoor):
    @extend_schema(operation_id="sessions_context", responses=ContextSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        """What the model would see if a run began now, by part, with tokens and the window."""
        return Response(
            ContextSerializer(preview(self.find(session_id), self.principal.user_id)).data
        )
