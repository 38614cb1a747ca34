"""REST: environments."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.body import fields_in
from agents.api.serializers import EnvironmentSerializer
from agents.environments import change_environment, create_environment, delete_environment
from agents.models import Environment
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet

TAKEN = OpenApiResponse(description="The name is taken, or is the default's and has to stay.")
NEEDED = OpenApiResponse(description="It is the default, or something refers to it.")


class EnvironmentViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Where agents' commands run."""

    queryset = Environment.objects.all()
    serializer_class = EnvironmentSerializer
    filterset_fields = ["name", "kind", "network"]
    parser_classes = [JSONParser]
    verbs = {
        "create": "build",
        "update": "build",
        "partial_update": "build",
        "destroy": "build",
    }

    @extend_schema(responses={201: EnvironmentSerializer, 409: TAKEN})
    def create(self, request: Request) -> Response:
        """Make an environment. Only the name is needed; the network is `none` unless said."""
        environment = create_environment(
            workspace_id=authorise(self.principal, "build"),
            fields=fields_in(request, EnvironmentSerializer),
            created_by=self.principal.user,
        )
        return Response(EnvironmentSerializer(environment).data, status=201)

    @extend_schema(responses={200: EnvironmentSerializer, 409: TAKEN})
    def update(self, request: Request, pk: str) -> Response:
        """Define the environment anew; what is not named gets its default."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: EnvironmentSerializer, 409: TAKEN})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is named."""
        return self._change(request, replace=False)

    @extend_schema(responses={204: None, 409: NEEDED})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the environment, unless a version or a session refers to it."""
        delete_environment(self.get_object())
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        fields = fields_in(request, EnvironmentSerializer)
        changed = change_environment(self.get_object(), fields, replace=replace)
        return Response(EnvironmentSerializer(changed).data)
