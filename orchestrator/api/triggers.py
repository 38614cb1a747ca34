"""REST: what starts workflows by itself, and what came of it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import Agent
from orchestrator import triggers
from orchestrator.models import TriggerFiring, WorkflowTrigger
from orchestrator.triggers import SecretTrigger
from sessions_app.api.body import ObjectField
from tenants.access import Verb, authorise
from tenants.api.base import OwnedRelatedField, RemoveMixin, WorkspaceViewSet
from tenants.api.fields import OwnSerializer, PatternField
from tenants.api.parsing import StrictJSONParser


class TriggerSerializer(OwnSerializer):
    agent = OwnedRelatedField(
        queryset=Agent.objects.filter(archived_at=None), required=False, allow_null=True
    )
    workflow = PatternField(
        r"^[^\x00]+$", max_length=100, default="canvas", help_text="`canvas`, or a registered one."
    )
    params = ObjectField(
        most=triggers.MOST_PARAMS,
        required=False,
        help_text="A template: `{{input}}` and `{{input.NAME}}` are what came in.",
    )
    path = serializers.CharField(read_only=True, help_text="Where a webhook's messages go.")

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
        read_only=True, allow_blank=True, help_text="Of a webhook. Shown once."
    )

    class Meta(TriggerSerializer.Meta):
        fields = [*TriggerSerializer.Meta.fields, "secret"]


class TriggerFiringSerializer(serializers.ModelSerializer):
    class Meta:
        model = TriggerFiring
        fields = ["id", "outcome", "missed", "workflow_id", "note", "created_at"]


def shown(made: SecretTrigger) -> dict[str, Any]:
    return {**TriggerSerializer(made.trigger).data, "secret": made.secret}


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
        """Set up a schedule or a webhook. This answer is the only one that shows the secret."""
        asked = TriggerSerializer(data=request.data, context=self.get_serializer_context())
        asked.is_valid(raise_exception=True)
        made = triggers.create_trigger(
            workspace_id=authorise(self.principal, "build"),
            created_by=self.principal.user,
            **asked.validated_data,
        )
        return Response(shown(made), status=201)

    @extend_schema(responses=TriggerSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is started, with what, or when."""
        trigger = self.get_object()
        asked = TriggerSerializer(
            trigger, data=request.data, partial=True, context=self.get_serializer_context()
        )
        asked.is_valid(raise_exception=True)
        changed = triggers.change_trigger(trigger, **asked.validated_data)
        return Response(TriggerSerializer(changed).data)

    @extend_schema(request=None, responses=TriggerSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Start nothing until it is resumed."""
        trigger = self.get_object()
        triggers.pause(trigger)
        return Response(TriggerSerializer(trigger).data)

    @extend_schema(request=None, responses=TriggerSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on from now; what was missed is not made up for."""
        trigger = self.get_object()
        triggers.resume(trigger)
        return Response(TriggerSerializer(trigger).data)

    @extend_schema(request=None, responses=NewTriggerSerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """A new secret for a webhook, shown once. The old one is worth nothing from now on."""
        return Response(shown(triggers.rotate_secret(self.get_object())))

    @extend_schema(responses=TriggerFiringSerializer(many=True))
    @action(detail=True, methods=["get"])
    def firings(self, request: Request, pk: str) -> Response:
        """Every time it was due or called, the newest first, and what came of it."""
        page: Any = self.paginate_queryset(TriggerFiring.objects.filter(trigger=self.get_object()))
        return self.get_paginated_response(TriggerFiringSerializer(page, many=True).data)
