"""REST views of webhooks, their deliveries and the inbox."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django_filters import BooleanFilter, FilterSet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from core.db import delete_row
from core.exceptions import Invalid
from core.rest import OwnSerializer, TextField, validate_body
from tenants.access import authorise
from tenants.api.base import UUID_PATTERN, WorkspaceViewSet
from tenants.models import InboxItem, Webhook, WebhookDelivery
from tenants.notifications import webhooks
from tenants.notifications.inbox import find_item, items_of, mark, mark_all


class WebhookSerializer(OwnSerializer):
    events = serializers.ListField(
        child=TextField(max_length=80),
        default=["*"],
        help_text="Event types, such as `run.failed`, `session.*` or `*`.",
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
    """A webhook with its new secret, which is shown once."""

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
        help_text="The items to mark. All items if omitted.",
    )
    read = serializers.BooleanField(default=True)


class ReadAllSerializer(serializers.Serializer):
    read = serializers.IntegerField(help_text="How many items were unread.")


ADMIN = ("list", "retrieve", "create", "partial_update", "destroy", "ping", "rotate", "replay")


class WebhookViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Webhook.objects.all()
    serializer_class = WebhookSerializer
    filterset_fields = ["active"]
    verbs = dict.fromkeys(ADMIN, "admin")

    @extend_schema(request=WebhookSerializer, responses={201: SecretWebhookSerializer})
    def create(self, request: Request) -> Response:
        """Add a webhook. Its secret is only shown in this response."""
        created = webhooks.add_webhook(
            workspace_id=authorise(self.principal, "admin"),
            created_by=self.principal.user,
            **validate_body(request, WebhookSerializer),
        )
        return Response(with_secret(created), status=201)

    @extend_schema(request=WebhookSerializer, responses=WebhookSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change a webhook. `active: true` enables a disabled one again."""
        webhook = self.get_object()
        given = validate_body(request, WebhookSerializer, partial=True)
        return Response(WebhookSerializer(webhooks.change_webhook(webhook, **given)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a webhook and its deliveries."""
        delete_row(self.get_object())
        return Response(status=204)

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def ping(self, request: Request, pk: str) -> Response:
        """Send a `webhook.ping` event. The delivery log shows its outcome."""
        return Response(DeliverySerializer(webhooks.ping(self.get_object())).data, status=202)

    @extend_schema(request=None, responses=SecretWebhookSerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Create a new secret, which is shown once. The old one also signs for a day."""
        return Response(with_secret(webhooks.rotate_secret(self.get_object())))


def with_secret(created: webhooks.SecretWebhook) -> dict[str, Any]:
    return {**WebhookSerializer(created.webhook).data, "secret": created.secret}


@extend_schema_view(list=extend_schema(operation_id="webhook_deliveries"))
class DeliveryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """The deliveries of a webhook, below `webhooks/{id}/`."""

    queryset = WebhookDelivery.objects.all()
    serializer_class = DeliverySerializer
    filterset_fields = ["status", "type"]
    verbs = dict.fromkeys(ADMIN, "admin")

    def get_queryset(self) -> Any:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows
        webhook_id = UUID(self.kwargs["webhook_id"])
        workspace_id = authorise(self.principal, "admin")
        return rows.filter(webhook=webhooks.find_webhook(workspace_id, webhook_id))

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, webhook_id: str, pk: str) -> Response:
        """Send a delivery again with the same `webhook-id`."""
        return Response(DeliverySerializer(webhooks.replay(self.get_object())).data, status=202)


BELOW_WEBHOOK = rf"webhooks/(?P<webhook_id>{UUID_PATTERN})/deliveries"


class InboxFilter(FilterSet):
    unread = BooleanFilter(field_name="is_read", exclude=True, label="Only unread items.")

    class Meta:
        model = InboxItem
        fields = ["kind"]


class InboxViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = InboxItem.objects.all()
    serializer_class = InboxSerializer
    filterset_class = InboxFilter
    # A mark is only visible to its caller, so it needs no more than reading.
    verbs = {"partial_update": "read", "read_all": "read", "update_all": "read"}

    def get_queryset(self) -> Any:
        return items_of(self.principal)

    @extend_schema(request=ReadSerializer, responses=InboxSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Mark an item as read or unread for the caller."""
        item = self.get_object()
        mark(self.principal, item, **validate_body(request, ReadSerializer))
        return Response(InboxSerializer(find_item(self.principal, item.pk)).data)

    @extend_schema(
        operation_id="inbox_update_all", request=ReadManySerializer, responses=ReadAllSerializer
    )
    def update_all(self, request: Request) -> Response:
        """Mark the given items, or all, as read for the caller."""
        given = validate_body(request, ReadManySerializer)
        if not given["read"]:
            raise Invalid("Only single items can be marked as unread, at inbox/ID/.")
        return Response({"read": mark_all(self.principal, given.get("ids"))})

    @extend_schema(request=None, responses=ReadAllSerializer)
    @action(detail=False, methods=["post"], url_path="read-all")
    def read_all(self, request: Request) -> Response:
        """Mark all items as read for the caller."""
        return Response({"read": mark_all(self.principal)})
