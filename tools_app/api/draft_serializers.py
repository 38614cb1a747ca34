"""The shapes of the REST doors of drafts. They describe; `agent_input` and `policy_input` judge."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.api.serializers import DefinitionSerializer
from agents.canvas import author_of
from agents.models import DraftChange
from tools_app.api.serializers import PolicyWordsSerializer


class DraftFieldsSerializer(DefinitionSerializer):
    """The definition, or the part of it that changes."""

    name = serializers.CharField(max_length=80, required=False)


class DraftPolicySerializer(PolicyWordsSerializer):
    """What a draft proposes in place of the agent's policy."""


class DraftSerializer(serializers.Serializer):
    agent = serializers.UUIDField()
    version = serializers.IntegerField(help_text="The published one; 0 before the first.")
    revision = serializers.IntegerField(help_text="Grows with every change of the draft.")
    is_empty = serializers.BooleanField(help_text="Nothing differs from the published version.")
    fields = DraftFieldsSerializer()  # type: ignore[assignment]
    changed = serializers.ListField(child=serializers.CharField())
    policy = DraftPolicySerializer(allow_null=True, help_text="As proposed; null: none is.")
    canvas_changed = serializers.BooleanField()


class DraftInputSerializer(serializers.Serializer):
    revision = serializers.IntegerField(
        required=False, help_text="The one that this builds on: refused with 409 when it is older."
    )
    fields = DraftFieldsSerializer(required=False)  # type: ignore[assignment]
    policy = DraftPolicySerializer(required=False, allow_null=True)


class DraftPublishSerializer(serializers.Serializer):
    revision = serializers.IntegerField(required=False, help_text="The one that was looked at.")


class ChangeAuthorSerializer(serializers.Serializer):
    user_id = serializers.UUIDField(allow_null=True)
    session_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)


class DraftChangeSerializer(serializers.ModelSerializer):
    author = serializers.SerializerMethodField()

    class Meta:
        model = DraftChange
        fields = ["id", "revision", "part", "before", "after", "author", "created_at"]
        read_only_fields = fields

    @extend_schema_field(ChangeAuthorSerializer)
    def get_author(self, change: DraftChange) -> dict[str, str | None]:
        return author_of(change)
