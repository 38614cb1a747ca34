"""REST: agents and their versions."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.body import fields_in, take_number
from agents.api.serializers import AgentSerializer, VersionSerializer
from agents.definitions import archive_agent, change_agent, create_agent
from agents.inputs import is_storable
from agents.models import Agent, AgentVersion
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser

ARCHIVED = OpenApiParameter(
    "archived", bool, description="See the archived agents instead of the active ones."
)
STALE = OpenApiResponse(description="`expected_version` is not the newest version.")
NAMED = OpenApiParameter("q", str, description="See those whose name has this in it.")


class AgentViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Agents, each as its current version defines it."""

    queryset = Agent.objects.select_related("current")
    serializer_class = AgentSerializer
    parser_classes = [StrictJSONParser]
    verbs = {
        "create": "build",
        "update": "build",
        "partial_update": "build",
        "destroy": "build",
    }

    def get_queryset(self) -> Any:
        asked = self.request.query_params
        archived = asked.get("archived", "").lower() in {"1", "true"}
        rows = super().get_queryset().known().filter(archived_at__isnull=not archived)
        if not (words := asked.get("q")):
            return rows
        return rows.filter(current__name__icontains=words) if is_storable(words) else rows.none()

    @extend_schema(parameters=[ARCHIVED, NAMED])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Agents of the workspace, the newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[ARCHIVED])
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One agent as its current version defines it."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(responses={201: AgentSerializer})
    def create(self, request: Request) -> Response:
        """Make an agent. Only the name is needed."""
        workspace_id = authorise(self.principal, "build")
        fields = fields_in(request, AgentSerializer)
        fields.pop("expected_version", None)
        agent = create_agent(
            workspace_id=workspace_id, fields=fields, created_by=self.principal.user
        )
        return Response(AgentSerializer(agent).data, status=201)

    @extend_schema(responses={200: AgentSerializer, 409: STALE})
    def update(self, request: Request, pk: str) -> Response:
        """Define the agent anew as its next version; what is not named gets its default."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: AgentSerializer, 409: STALE})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Make the agent's next version with these changes. No difference makes no version."""
        return self._change(request, replace=False)

    def destroy(self, request: Request, pk: str) -> Response:
        """Archive the agent. Its sessions stay readable; it starts nothing new."""
        archive_agent(self.get_object())
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        agent: Agent = self.get_object()
        changes = fields_in(request, AgentSerializer)
        expected = take_number(changes, "expected_version")
        change_agent(
            agent, changes, by=self.principal.user, replace=replace, expected_version=expected
        )
        return Response(AgentSerializer(agent).data)


class VersionViewSet(ListModelMixin, WorkspaceViewSet):
    """The immutable versions of one agent, archived or not."""

    queryset = AgentVersion.objects.all()
    serializer_class = VersionSerializer

    def get_queryset(self) -> Any:
        return super().get_queryset().published().filter(agent_id=self.kwargs["agent_id"])

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """All versions, the newest first."""
        agents = Agent.objects.for_workspace(self.principal.workspace_id)
        if not agents.filter(pk=self.kwargs["agent_id"]).exists():
            raise Http404
        return super().list(request, *args, **kwargs)

    @extend_schema(operation_id="agents_versions_retrieve")
    def retrieve(self, request: Request, agent_id: str, number: int) -> Response:
        """One version by its number."""
        version = self.get_queryset().filter(number=number).first()
        if version is None:
            raise Http404
        return Response(VersionSerializer(version).data)
