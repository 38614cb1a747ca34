"""REST views of agents, their versions and environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.base import (
    NamedRowViewSet,
    NumberedViewSet,
    documented,
    pop_number,
    writable_fields,
    write_verbs,
)
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


@extend_schema_view(
    list=extend_schema(
        parameters=[ARCHIVED, NAME_CONTAINS],
        description="List the agents of the workspace, newest first.",
    ),
    retrieve=extend_schema(
        parameters=[ARCHIVED],
        description="Return one agent as its current version defines it.",
    ),
)
class AgentViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Agents, each as its current version defines it."""

    queryset = Agent.objects.select_related("current")
    serializer_class = AgentSerializer
    parser_classes = [StrictJSONParser]
    verbs = write_verbs("build")

    def get_queryset(self) -> Any:
        params = self.request.query_params
        archived = params.get("archived", "").lower() in {"1", "true"}
        rows = super().get_queryset().known().filter(archived_at__isnull=not archived)
        if not (text := params.get("q")):
            return rows
        return rows.filter(current__name__icontains=text) if is_storable(text) else rows.none()

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


@extend_schema_view(
    list=extend_schema(description="List all versions, newest first."),
    retrieve=extend_schema(
        operation_id="agents_versions_retrieve", description="Return one version by its number."
    ),
)
class VersionViewSet(NumberedViewSet):
    """The immutable versions of one agent, archived or not."""

    queryset = AgentVersion.objects.all()
    serializer_class = VersionSerializer

    def get_queryset(self) -> Any:
        return super().get_queryset().published()


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
