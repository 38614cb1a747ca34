"""REST: triggers, their firings, and the public endpoint that incoming webhooks call."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import Any, ClassVar

import orjson
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from standardwebhooks import Webhook as Signer
from standardwebhooks.webhooks import WebhookVerificationError

from agents.models import Agent
from core.exceptions import Invalid, NotFound, TooManyRequests
from core.ids import uuid7
from core.rest import OwnSerializer, PatternField, StrictJSONParser
from core.throttling import buckets, client_address, spend_guess
from core.validation import can_be_stored
from orchestrator import triggers
from orchestrator.exceptions import HookRefused, HookTooLarge
from orchestrator.models import TriggerFiring, WorkflowTrigger
from sessions_app.api.base import ObjectField
from sessions_app.schedules import timing
from tenants.access import Verb, authorise
from tenants.api.base import OwnedRelatedField, RemoveMixin, WorkspaceViewSet


class TriggerSerializer(OwnSerializer):
    agent = OwnedRelatedField(
        queryset=Agent.objects.filter(archived_at=None), required=False, allow_null=True
    )
    workflow = PatternField(
        r"^[^\x00]+$",
        max_length=100,
        default="canvas",
        help_text="`canvas`, or the name of a workflow.",
    )
    params = ObjectField(
        max_bytes=triggers.MAX_PARAMS,
        required=False,
        help_text="A template: `{{input}}` and `{{input.NAME}}` stand for the message.",
    )
    path = serializers.CharField(
        read_only=True, help_text="The path that a webhook's messages are sent to."
    )

    class Meta:
        model = WorkflowTrigger
        fields = [
            "id", "name", "kind", "workflow", "agent", "params", "interval_seconds", "cron",
            "timezone", "verify", "path", "next_at", "last_at", "paused_at", "created_by",
            "created_at",
        ]  # fmt: skip
        read_only_fields = ["next_at", "last_at", "paused_at", "created_by"]


class NewTriggerSerializer(TriggerSerializer):
    secret = serializers.CharField(
        read_only=True, allow_blank=True, help_text="The secret of a webhook. Shown once."
    )

    class Meta(TriggerSerializer.Meta):
        fields = [*TriggerSerializer.Meta.fields, "secret"]


class TriggerFiringSerializer(serializers.ModelSerializer):
    class Meta:
        model = TriggerFiring
        fields = ["id", "outcome", "missed", "workflow_id", "note", "created_at"]


def with_secret(created: triggers.SecretTrigger) -> dict[str, Any]:
    return {**TriggerSerializer(created.trigger).data, "secret": created.secret}


class TriggerViewSet(ListModelMixin, RetrieveModelMixin, RemoveMixin, WorkspaceViewSet):
    """Times and incoming webhooks that start workflows and canvases."""

    queryset = WorkflowTrigger.objects.all()
    serializer_class = TriggerSerializer
    filterset_fields = ["agent", "kind", "workflow"]
    parser_classes = [StrictJSONParser]
    verbs: ClassVar[dict[str, Verb]] = dict.fromkeys(
        ["create", "partial_update", "destroy", "pause", "resume", "rotate"], "build"
    )

    @extend_schema(responses={201: NewTriggerSerializer})
    def create(self, request: Request) -> Response:
        """Create a schedule or a webhook. Only this answer shows the secret."""
        serializer = TriggerSerializer(data=request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        created = triggers.create_trigger(
            workspace_id=authorise(self.principal, "build"),
            created_by=self.principal.user,
            **serializer.validated_data,
        )
        return Response(with_secret(created), status=201)

    @extend_schema(responses=TriggerSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is started, with what, or when."""
        trigger = self.get_object()
        serializer = TriggerSerializer(
            trigger, data=request.data, partial=True, context=self.get_serializer_context()
        )
        serializer.is_valid(raise_exception=True)
        changed = triggers.change_trigger(trigger, **serializer.validated_data)
        return Response(TriggerSerializer(changed).data)

    @extend_schema(request=None, responses=TriggerSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Fire nothing until the trigger is resumed."""
        trigger = self.get_object()
        timing.pause(trigger)
        return Response(TriggerSerializer(trigger).data)

    @extend_schema(request=None, responses=TriggerSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Continue from now; missed times are not made up for."""
        trigger = self.get_object()
        timing.resume(trigger)
        return Response(TriggerSerializer(trigger).data)

    @extend_schema(request=None, responses=NewTriggerSerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Replace the secret of a webhook. The new one is shown once; the old one stops working."""
        return Response(with_secret(triggers.rotate_secret(self.get_object())))

    @extend_schema(responses=TriggerFiringSerializer(many=True))
    @action(detail=True, methods=["get"])
    def firings(self, request: Request, pk: str) -> Response:
        """List every time it was due or called, newest first, with the outcome."""
        page: Any = self.paginate_queryset(TriggerFiring.objects.filter(trigger=self.get_object()))
        return self.get_paginated_response(TriggerFiringSerializer(page, many=True).data)


MAX_BYTES = 256 * 1024
PER_MINUTE = 120
MAX_ID = 255
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class ReceivedSerializer(serializers.Serializer):
    workflow_id = serializers.UUIDField()
    duplicate = serializers.BooleanField(help_text="This message was received before.")


class RawParser(BaseParser):
    """Leaves the body as it is: the signature is over its bytes."""

    media_type = "*/*"


class HookView(APIView):
    """Needs no sign-in. Unknown addresses and wrong secrets count against the caller's rate limit."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    throttle_classes: list[Any] = []
    parser_classes = [RawParser]

    @extend_schema(
        operation_id="hooks_receive",
        auth=[],
        request=OpenApiTypes.OBJECT,
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.HEADER) for name in HEADERS
        ],
        responses={
            202: ReceivedSerializer,
            401: OpenApiResponse(description="The signature or token is not valid."),
        },
    )
    def post(self, request: Request, token: str) -> Response:
        """Start the trigger's workflow. The same `webhook-id` starts it once."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BYTES:
            raise HookTooLarge
        trigger = WorkflowTrigger.objects.filter(kind="webhook", token=token).first()
        if trigger is None:
            spend_guess(client_address(request._request))
            raise NotFound
        body = request.body
        if len(body) > MAX_BYTES:
            raise HookTooLarge
        if not is_genuine(trigger, request, body):
            spend_guess(client_address(request._request))
            raise HookRefused
        allowance = buckets.spend(f"hook {trigger.pk}", per_minute=PER_MINUTE)
        if allowance.wait:
            raise TooManyRequests(retry_after=allowance.wait)
        firing, is_new = triggers.receive(trigger, read_body(body), message_id(request))
        return Response({"workflow_id": firing.workflow_id, "duplicate": not is_new}, status=202)


def is_genuine(trigger: WorkflowTrigger, request: Request, body: bytes) -> bool:
    """Return whether the message is signed with the trigger's secret, or carries it."""
    secret = trigger.secret or ""
    if trigger.verify == WorkflowTrigger.Verify.TOKEN:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and compare_digest(
            given.strip().encode(), secret.encode()
        )
    signed = {name: request.headers.get(name, "") for name in HEADERS}
    try:
        Signer(secret).verify(body, signed, json_parse=False)
    except (WebhookVerificationError, ValueError, OverflowError):
        return False
    return True


def message_id(request: Request) -> str:
    """Return the key by which a repeated message is recognised; without an id each is new."""
    named = request.headers.get("webhook-id") or request.headers.get("Idempotency-Key")
    if named and len(named) > MAX_ID:
        raise Invalid(f"The id of a message may have at most {MAX_ID} characters.")
    return sha256(named.encode()).hexdigest() if named else str(uuid7())


def read_body(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Invalid("The body is not JSON.") from None
    if not can_be_stored(given):
        raise Invalid(
            "The body contains NUL, is nested too deeply, or has a number that is too large."
        )
    return given
