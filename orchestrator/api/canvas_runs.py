"""REST: runs of an agent's published canvas."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import Agent
from core.exceptions import NotFound
from core.rest import StrictJSONParser, TextField, validate_body
from core.validation import can_be_stored
from orchestrator.api.workflows import JSON, ErrorSerializer
from orchestrator.canvas.run import CANVAS, states_of
from orchestrator.engine.lifecycle import start_as
from orchestrator.models import Step, Workflow
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import required_verb

NODE_STATES = ["running", "waiting", "waiting_approval", "complete", "errored", "skipped"]


@extend_schema_field(JSON)
class AnyField(serializers.JSONField):
    """Any JSON value that PostgreSQL can store."""

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        if not can_be_stored(value):
            raise serializers.ValidationError("This cannot be stored.")
        return value


class CanvasRunInput(serializers.Serializer):
    input = AnyField(required=False, default=None, allow_null=True, help_text="Any JSON value.")
    id = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        default=None,
        help_text="Your own id for the run. The same id and input start it once.",
    )


class CanvasStartedSerializer(serializers.Serializer):
    workflow_id = serializers.UUIDField()
    revision = serializers.IntegerField()


class NodeStateSerializer(serializers.Serializer):
    node = serializers.CharField()
    status = serializers.ChoiceField(choices=NODE_STATES)
    error = ErrorSerializer(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class CanvasRunSerializer(serializers.ModelSerializer):
    workflow_id = serializers.UUIDField(source="pk")
    revision = serializers.IntegerField(source="params.revision")
    input = serializers.JSONField(source="params.input", allow_null=True)
    error = ErrorSerializer(allow_null=True)
    nodes = serializers.SerializerMethodField()

    class Meta:
        model = Workflow
        fields = [
            "workflow_id", "status", "revision", "input", "error", "nodes",
            "created_by", "created_at", "finished_at",
        ]  # fmt: skip

    @extend_schema_field(NodeStateSerializer(many=True))
    def get_nodes(self, run: Workflow) -> Any:
        return NodeStateSerializer(states_of(run.steps.all()), many=True).data


class CanvasRunViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Workflow.objects.filter(name=CANVAS)
    serializer_class = CanvasRunSerializer
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        # Results may be large, and are not shown here.
        steps = Step.objects.order_by("position").defer("result")
        rows = super().get_queryset().filter(agent=self._agent()).defer("result")
        return rows.prefetch_related(Prefetch("steps", steps)).order_by("-created_at")

    def _agent(self) -> Agent:
        workspace_id = authorise(self.principal, required_verb(self.request, self))
        agents = Agent.objects.for_workspace(workspace_id)
        found = agents.filter(pk=self.kwargs["agent_id"]).first()
        if found is None:
            raise NotFound
        return found

    @extend_schema(operation_id="agents_canvas_runs_list")
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List runs of the canvas, newest first, with the state of each node."""
        self._agent()
        return super().list(request, *args, **kwargs)

    @extend_schema(
        operation_id="agents_canvas_run",
        request=CanvasRunInput,
        responses={202: CanvasStartedSerializer},
    )
    def run(self, request: Request, agent_id: UUID) -> Response:
        """Run the published canvas. Follow it as a workflow; frames name the node."""
        agent = self._agent()
        body = validate_body(request, CanvasRunInput)
        started, _ = start_as(
            self.principal,
            CANVAS,
            {"agent": str(agent.pk), "input": body["input"]},
            key=body["id"],
            agent_id=agent.pk,
        )
        return Response(
            {"workflow_id": started.pk, "revision": started.params["revision"]},
            status=202,
        )
