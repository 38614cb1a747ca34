"""REST: tools that a client runs itself."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.body import fields_in
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tools_app.api.serializers import PERMISSIONS
from tools_app.custom import (
    LONGEST_WAIT,
    NAME_PATTERN,
    change_custom_tool,
    create_custom_tool,
)
from tools_app.models import CustomTool

TAKEN = OpenApiResponse(description="The name is taken.")


class CustomToolSerializer(serializers.Serializer):
    """A tool that a client runs. Each call goes out as an event and waits for its result."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(NAME_PATTERN)
    description = serializers.CharField(
        max_length=4_000, help_text="What it does and when to use it, for the model."
    )
    input_schema = serializers.DictField(
        required=False, help_text="A JSON Schema of an object. By default one without properties."
    )
    permission = serializers.ChoiceField(
        choices=PERMISSIONS,
        required=False,
        help_text="Whether a person is asked first when no policy says otherwise.",
    )
    timeout_seconds = serializers.IntegerField(
        min_value=1,
        max_value=LONGEST_WAIT,
        required=False,
        help_text="How long a call waits for its result; 300 if left out.",
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class CustomToolViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = CustomTool.objects.all()
    serializer_class = CustomToolSerializer
    filterset_fields = ["name"]
    parser_classes = [JSONParser]
    verbs = {
        "create": "build",
        "update": "build",
        "partial_update": "build",
        "destroy": "build",
    }

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The workspace's own tools, the newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One tool of the workspace."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(responses={201: CustomToolSerializer, 409: TAKEN})
    def create(self, request: Request) -> Response:
        """Define a tool. Agents whose policy lets them have it get it in their next run."""
        made = create_custom_tool(
            workspace_id=authorise(self.principal, "build"),
            fields=fields_in(request, CustomToolSerializer),
            created_by=self.principal.user,
        )
        return Response(CustomToolSerializer(made).data, status=201)

    @extend_schema(responses={200: CustomToolSerializer, 409: TAKEN})
    def update(self, request: Request, pk: str) -> Response:
        """Define the tool anew; what is not named gets its default."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: CustomToolSerializer, 409: TAKEN})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is named."""
        return self._change(request, replace=False)

    def destroy(self, request: Request, pk: str) -> Response:
        """Forget the tool. Calls that are out already can still be answered."""
        self.get_object().delete()
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        tool: CustomTool = self.get_object()
        fields = fields_in(request, CustomToolSerializer)
        return Response(
            CustomToolSerializer(change_custom_tool(tool, fields, replace=replace)).data
        )
