"""REST: the acting workspace's webhooks and their deliveries."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import authorise
from tenants.api.base import UUID_PATTERN, WorkspaceViewSet
from tenants.api.webhook_serializers import (
    DeliverySerializer,
    SecretWebhookSerializer,
    WebhookSerializer,
)
from tenants.models import Webhook, WebhookDelivery
from tenants.rows import remove
from tenants.webhooks import (
    SecretWebhook,
    add_webhook,
    change_webhook,
    find_webhook,
    ping,
    replay,
    rotate_secret,
)

ADMIN = ("list", "retrieve", "create", "partial_update", "destroy", "ping", "rotate", "replay")


class WebhookViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Webhook.objects.all()
    serializer_class = WebhookSerializer
    filterset_fields = ["active"]
    verbs = dict.fromkeys(ADMIN, "admin")

    @extend_schema(request=WebhookSerializer, responses={201: SecretWebhookSerializer})
    def create(self, request: Request) -> Response:
        """Add a webhook. The answer is the only place where its secret is shown."""
        asked = WebhookSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        made = add_webhook(
            workspace_id=authorise(self.principal, "admin"),
            created_by=self.principal.user,
            **asked.validated_data,
        )
        return Response(with_secret(made), status=201)

    @extend_schema(request=WebhookSerializer, responses=WebhookSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change a webhook. `active: true` enables one again that was switched off."""
        webhook = self.get_object()
        asked = WebhookSerializer(data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        return Response(WebhookSerializer(change_webhook(webhook, **asked.validated_data)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a webhook with its deliveries."""
        remove(self.get_object())
        return Response(status=204)

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def ping(self, request: Request, pk: str) -> Response:
        """Send a `webhook.ping` event. What became of it is in the delivery log."""
        return Response(DeliverySerializer(ping(self.get_object())).data, status=202)

    @extend_schema(request=None, responses=SecretWebhookSerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Give the webhook a new secret, shown here once. The old one signs too for a day."""
        return Response(with_secret(rotate_secret(self.get_object())))


def with_secret(made: SecretWebhook) -> dict[str, Any]:
    return {**WebhookSerializer(made.webhook).data, "secret": made.secret}


@extend_schema_view(list=extend_schema(operation_id="webhook_deliveries"))
class DeliveryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Below `webhooks/{id}/`."""

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
        return rows.filter(webhook=find_webhook(workspace_id, webhook_id))

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, webhook_id: str, pk: str) -> Response:
        """Send it again, with the same `webhook-id`."""
        return Response(DeliverySerializer(replay(self.get_object())).data, status=202)


BELOW_WEBHOOK = rf"webhooks/(?P<webhook_id>{UUID_PATTERN})/deliveries"
