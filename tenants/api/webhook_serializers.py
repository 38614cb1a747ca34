"""The shapes of the doors to webhooks and the inbox."""

from __future__ import annotations

from rest_framework import serializers

from tenants.api.fields import OwnSerializer, TextField
from tenants.models import InboxItem, Webhook, WebhookDelivery


class WebhookSerializer(OwnSerializer):
    events = serializers.ListField(
        child=TextField(max_length=80),
        default=["*"],
        help_text="Types of events, such as `run.failed`; `session.*` and `*` work too.",
    )

    class Meta:
        model = Webhook
        fields = [
            "id",
            "url",
            "events",
            "description",
            "active",
            "disabled_reason",
            "failures",
            "failing_since",
            "created_by",
            "created_at",
        ]
        read_only_fields = ["disabled_reason", "failures", "failing_since", "created_by"]


class SecretWebhookSerializer(WebhookSerializer):
    """A webhook with its new secret, which is shown this once."""

    secret = serializers.CharField(read_only=True)

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]


class DeliverySerializer(serializers.ModelSerializer):
    class Meta:
        model = WebhookDelivery
        fields = [
            "id",
            "webhook",
            "type",
            "body",
            "status",
            "attempts",
            "next_attempt_at",
            "attempted_at",
            "finished_at",
            "duration_ms",
            "response_status",
            "response_snippet",
            "created_by",
            "created_at",
        ]
        read_only_fields = fields


class InboxSerializer(serializers.ModelSerializer):
    read = serializers.BooleanField(source="is_read", help_text="Whether the caller has read it.")
    session_id = serializers.UUIDField(read_only=True, allow_null=True)
    agent_id = serializers.UUIDField(read_only=True, allow_null=True)

    class Meta:
        model = InboxItem
        fields = [
            "id",
            "kind",
            "title",
            "body",
            "link",
            "user",
            "session_id",
            "agent_id",
            "read",
            "created_by",
            "created_at",
        ]
        read_only_fields = [name for name in fields if name != "read"]


class ReadSerializer(serializers.Serializer):
    read = serializers.BooleanField()


class ReadManySerializer(serializers.Serializer):
    ids = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        allow_empty=False,
        max_length=1_000,
        help_text="Which; everything if left out.",
    )
    read = serializers.BooleanField(default=True)


class ReadAllSerializer(serializers.Serializer):
    read = serializers.IntegerField(help_text="How many were unread.")
