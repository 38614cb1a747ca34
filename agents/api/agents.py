"""REST views of agents, their versions and environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.base import NamedRowViewSet, documented, pop_number, writable_fields
from agents.api.serializers import AgentSerializer, EnvironmentSerializer, VersionSerializer
from agents.definitions import archive_agent, change_agent, create_agent
from agents.environments import change_environment, create_environment, delete_environment
from agents.models import Agent, AgentVersion, Environment
from core.rest import StrictJSONParser
from core.validation import is_storable
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet

ARCHIVED = OpenApiParameter(
    "archived", bool, description="Return archived agents instead of active ones."
)
STALE = OpenApiResponse(description="`expected_version` is not the newest version.")
NAME_CONTAINS = OpenApiParameter("q", str, description="Return agents whose name contains this.")


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
        params = self.request.query_params
        archived = params.get("archived", "").lower() in {"1", "true"}
        rows = super().get_queryset().known().filter(archived_at__isnull=not archived)
        if not (text := params.get("q")):
            return rows
        return rows.filter(current__name__icontains=text) if is_storable(text) else rows.none()

    @extend_schema(parameters=[ARCHIVED, NAME_CONTAINS])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the agents of the workspace, newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[ARCHIVED])
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return one agent as its current version defines it."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(responses={201: AgentSerializer})
    def create(self, request: Request) -> Response:
        """Create an agent. Only the name is required."""
        workspace_id = authorise(self.principal, "build")
        fields = writable_fields(request, AgentSerializer)
        fields.pop("expected_version", None)
        agent = create_agent(
            workspace_id=workspace_id, fields=fields, created_by=self.principal.user
        )
        return Response(AgentSerializer(agent).data, status=201)

    @extend_schema(responses={200: AgentSerializer, 409: STALE})
    def update(self, request: Request, pk: str) -> Response:
        """Replace the agent's definition with a new version; unnamed fields get their default."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: AgentSerializer, 409: STALE})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Create the agent's next version with these changes. No change makes no version."""
        return self._change(request, replace=False)

    def destroy(self, request: Request, pk: str) -> Response:
        """Archive the agent. Its sessions stay readable; it starts nothing new."""
        archive_agent(self.get_object())
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        agent: Agent = self.get_object()
        changes = writable_fields(request, AgentSerializer)
        expected = pop_number(changes, "expected_version")
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
        """List all versions, newest first."""
        agents = Agent.objects.for_workspace(self.principal.workspace_id)
        if not agents.filter(pk=self.kwargs["agent_id"]).exists():
            raise Http404
        return super().list(request, *args, **kwargs)

    @extend_schema(operation_id="agents_versions_retrieve")
    def retrieve(self, request: Request, agent_id: str, number: int) -> Response:
        """Return one version by its number."""
        version = self.get_queryset().filter(number=number).first()
        if version is None:
            raise Http404
        return Response(VersionSerializer(version).data)


@documented(
    create="Create an environment. Only the name is required; the network is `none` by default.",
    update="Replace the environment; unnamed fields get their default.",
    destroy="Delete the environment, unless a version or a session refers to it.",
    taken="The name is taken, or the default environment would be renamed.",
    needed="It is the default environment, or still in use.",
)
class EnvironmentViewSet(NamedRowViewSet):
    """Environments, in which agents' commands run."""

    queryset = Environment.objects.all()
    serializer_class = EnvironmentSerializer
    filterset_fields = ["name", "kind", "network"]

    def make(self, **given: Any) -> Environment:
        return create_environment(**given)

    def change(self, row: Environment, fields: Mapping[str, Any], *, replace: bool) -> Environment:
        return change_environment(row, fields, replace=replace)

    def remove(self, row: Environment) -> None:
        delete_environment(row)
