"""REST views of an agent's canvas, its revisions and publishing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import (
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
    extend_schema_view,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import NumberedViewSet, version_number
from agents.canvas.graph import validate
from agents.canvas.revisions import Author, CanvasState, author_of, publish, read, save
from agents.models import Agent, CanvasRevision
from core.rest import StrictJSONParser, json_object
from core.validation import wrong_field
from tenants.access import Verb, authorise
from tenants.authentication import principal_of, required_verb
from tools_app.workspace_tools import tools_of_workspace


class NodeSerializer(serializers.Serializer):
    id = serializers.CharField(max_length=64)
    type = serializers.CharField(
        max_length=40,
        help_text="trigger, agent, tool, condition, approval, sub_agent, wait, output, code, http, "
        "loop, workflow, note, or a type that a plugin brings.",
    )
    name = serializers.CharField(max_length=120, required=False, allow_blank=True)
    config = serializers.DictField(required=False)
    position = serializers.DictField(child=serializers.FloatField(), required=False)
    pin = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="`output`: what test runs use in place of running the node.",
    )


class EdgeSerializer(serializers.Serializer):
    source = serializers.CharField(max_length=64)  # type: ignore[assignment]
    target = serializers.CharField(max_length=64)
    handle = serializers.CharField(
        max_length=40,
        required=False,
        allow_blank=True,
        help_text="`true` or `false` when it leaves a condition.",
    )
    label = serializers.CharField(  # type: ignore[assignment]
        max_length=120, required=False, allow_blank=True
    )


class ComplaintSerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()
    node = serializers.CharField(allow_null=True)
    level = serializers.ChoiceField(choices=["error", "warning"])


class CanvasAuthorSerializer(serializers.Serializer):
    user_id = serializers.UUIDField(allow_null=True)
    session_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)


class CanvasSerializer(serializers.Serializer):
    nodes = NodeSerializer(many=True)
    edges = EdgeSerializer(many=True)
    revision = serializers.IntegerField(help_text="The newest revision; 0 before the first.")
    published_revision = serializers.IntegerField(allow_null=True)
    published_at = serializers.DateTimeField(allow_null=True)
    author = CanvasAuthorSerializer(allow_null=True)
    created_by = serializers.UUIDField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)
    problems = ComplaintSerializer(many=True)


class CanvasInputSerializer(serializers.Serializer):
    nodes = NodeSerializer(many=True)
    edges = EdgeSerializer(many=True)
    revision = serializers.IntegerField(help_text="The revision that this change is based on.")
    confirm_empty = serializers.BooleanField(
        required=False, help_text="Required to empty a canvas."
    )


class PublishSerializer(serializers.Serializer):
    revision = serializers.IntegerField(required=False)


class RevisionSerializer(serializers.ModelSerializer):
    author = serializers.SerializerMethodField()
    author_name = serializers.SerializerMethodField()

    class Meta:
        model = CanvasRevision
        fields = [
            "number", "nodes", "edges", "author", "author_name", "created_by", "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_author_name(self, revision: CanvasRevision) -> str:
        if revision.session_id:
            return "An agent"
        return revision.created_by.display_name if revision.created_by else "A program"

    @extend_schema_field(CanvasAuthorSerializer)
    def get_author(self, revision: CanvasRevision) -> dict[str, Any]:
        return author_of(revision)


class BriefRevisionSerializer(RevisionSerializer):
    class Meta(RevisionSerializer.Meta):
        fields = [name for name in RevisionSerializer.Meta.fields if name not in ("nodes", "edges")]
        read_only_fields = fields


STALE = OpenApiResponse(description="`revision` is not the newest; `current` is the newer canvas.")


class CanvasBaseView(APIView):
    """Finds the agent before it reads the body, so that strangers learn nothing by sending one."""

    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"PUT": "build", "POST": "build"}

    def find(self, agent_id: UUID) -> Agent:
        workspace_id = authorise(principal_of(self.request), required_verb(self.request, self))
        return Agent.objects.for_workspace(workspace_id).find(pk=agent_id)

    def canvas_response(self, agent: Agent, canvas: CanvasState) -> Response:
        issues = validate(canvas.graph, tools=tools_of_workspace(agent.workspace_id))
        return Response({**canvas.as_json(), "problems": [issue.as_json() for issue in issues]})


class CanvasView(CanvasBaseView):
    @extend_schema(operation_id="agents_canvas_retrieve", responses=CanvasSerializer)
    def get(self, request: Request, agent_id: UUID) -> Response:
        """Return the newest revision, and the issues that would keep it from running."""
        agent = self.find(agent_id)
        return self.canvas_response(agent, read(agent))

    @extend_schema(
        operation_id="agents_canvas_update",
        request=CanvasInputSerializer,
        responses={200: CanvasSerializer, 409: STALE},
    )
    def put(self, request: Request, agent_id: UUID) -> Response:
        """Save the next revision. A graph with errors can be saved, but not published."""
        agent = self.find(agent_id)
        body = json_object(request)
        seen = version_number(body, "revision")
        if seen is None:
            raise wrong_field("revision", "Give the revision that this change is based on.")
        drawn = save(
            agent,
            nodes=body.get("nodes"),
            edges=body.get("edges"),
            revision=seen,
            confirm_empty=body.get("confirm_empty") is True,
            author=Author(user_id=principal_of(request).user_id),
        )
        return self.canvas_response(agent, drawn)


class PublishView(CanvasBaseView):
    @extend_schema(
        operation_id="agents_canvas_publish",
        request=PublishSerializer,
        responses={
            200: CanvasSerializer,
            409: STALE,
            422: OpenApiResponse(
                description="`errors` lists, by node, what keeps it from running."
            ),
        },
    )
    def post(self, request: Request, agent_id: UUID) -> Response:
        """Publish the newest revision, so that runs follow it."""
        agent = self.find(agent_id)
        seen = version_number(json_object(request), "revision")
        tools = tools_of_workspace(agent.workspace_id)
        canvas = publish(agent, tools=tools, revision=seen)
        return self.canvas_response(agent, canvas)


@extend_schema_view(
    list=extend_schema(
        operation_id="agents_canvas_revisions_list", description="List all revisions, newest first."
    ),
    retrieve=extend_schema(
        operation_id="agents_canvas_revisions_retrieve",
        description="Return one revision by its number.",
    ),
)
class RevisionViewSet(NumberedViewSet):
    """The revisions of one agent's canvas."""

    queryset = CanvasRevision.objects.select_related("created_by")
    serializer_class = RevisionSerializer


@extend_schema_view(
    list=extend_schema(
        operation_id="agents_canvas_history_list",
        description="List who wrote each revision and when, newest first.",
    )
)
class BriefRevisionViewSet(NumberedViewSet):
    """The revisions of one agent's canvas, without their graphs."""

    queryset = CanvasRevision.objects.select_related("created_by").defer("nodes", "edges")
    serializer_class = BriefRevisionSerializer
