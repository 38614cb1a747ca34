"""Incoming webhooks: a public address that believes nothing but the trigger's own secret."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import Any

import orjson
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from standardwebhooks import Webhook as Signer
from standardwebhooks.webhooks import WebhookVerificationError

from config.faults import HookRefused, HookTooLarge, Invalid, NotFound, TooManyRequests
from orchestrator.firing import receive
from orchestrator.models import WorkflowTrigger
from sessions_app.api.body import can_be_stored
from tenants.buckets import buckets, spend_guess
from tenants.clients import client_address
from tenants.ids import uuid7

MOST_BYTES = 256 * 1024
PER_MINUTE = 120
LONGEST_ID = 255
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class ReceivedSerializer(serializers.Serializer):
    workflow_id = serializers.UUIDField()
    duplicate = serializers.BooleanField(help_text="This message had come before.")


class Unparsed(BaseParser):
    """The view reads the bytes itself: they are what was signed."""

    media_type = "*/*"


class HookView(APIView):
    """Nobody signs in here. An address that is not known and a secret that is wrong cost the caller."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    throttle_classes: list[Any] = []
    parser_classes = [Unparsed]

    @extend_schema(
        operation_id="hooks_receive",
        auth=[],
        request=OpenApiTypes.OBJECT,
        parameters=[
            OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.HEADER) for name in HEADERS
        ],
        responses={202: ReceivedSerializer, 401: OpenApiResponse(description="Not signed for it.")},
    )
    def post(self, request: Request, token: str) -> Response:
        """Start what a trigger is for. The same `webhook-id` starts it once."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > MOST_BYTES:
            raise HookTooLarge
        trigger = WorkflowTrigger.objects.filter(kind="webhook", token=token).first()
        if trigger is None:
            spend_guess(client_address(request._request))
            raise NotFound
        body = request.body
        if len(body) > MOST_BYTES:
            raise HookTooLarge
        if not is_genuine(trigger, request, body):
            spend_guess(client_address(request._request))
            raise HookRefused
        allowance = buckets.spend(f"hook {trigger.pk}", per_minute=PER_MINUTE)
        if allowance.wait:
            raise TooManyRequests(retry_after=allowance.wait)
        firing, is_new = receive(trigger, read_body(body), message_id(request))
        return Response({"workflow_id": firing.workflow_id, "duplicate": not is_new}, status=202)


def is_genuine(trigger: WorkflowTrigger, request: Request, body: bytes) -> bool:
    secret = trigger.secret or ""
    if trigger.verify == WorkflowTrigger.Verify.TOKEN:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and compare_digest(
            shown.strip().encode(), secret.encode()
        )
    signed = {name: request.headers.get(name, "") for name in HEADERS}
    try:
        Signer(secret).verify(body, signed, json_parse=False)
    except (WebhookVerificationError, ValueError, OverflowError):
        return False
    return True


def message_id(request: Request) -> str:
    """What tells a message that is sent again from a new one; without a name each is new."""
    named = request.headers.get("webhook-id") or request.headers.get("Idempotency-Key")
    if named and len(named) > LONGEST_ID:
        raise Invalid(f"The id of a message has at most {LONGEST_ID} characters.")
    return sha256(named.encode()).hexdigest() if named else str(uuid7())


def read_body(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Invalid("The body is not JSON.") from None
    if not can_be_stored(given):
        raise Invalid("The body holds NUL, is nested too deeply or has too large a number.")
    return given
