"""REST: what the model would see now."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api.door import SessionDoor
from sessions_app.preview import preview


class PartSerializer(serializers.Serializer):
    name = serializers.CharField(help_text="`instructions`, `tools` or `messages`.")
    tokens = serializers.IntegerField()
    content = serializers.JSONField(help_text="A text, or a list with the tokens of each.")


class ContextSerializer(serializers.Serializer):
    provider = serializers.CharField()
    model = serializers.CharField()
    window = serializers.IntegerField(help_text="Tokens that the model takes in all.")
    budget = serializers.IntegerField(help_text="Tokens of it that the conversation may use.")
    tokens = serializers.IntegerField(help_text="An estimate of what is used.")
    parts = PartSerializer(many=True)


class ContextView(SessionDoor):
    @extend_schema(operation_id="sessions_context", responses=ContextSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:
        """What the model would see if a run began now, by part, with tokens and the window."""
        return Response(ContextSerializer(preview(self.find(session_id))).data)
