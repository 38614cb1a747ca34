"""REST: MCP servers of the acting workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.named_rows import NamedRowViewSet, documented, written_by
from tools_app.api.serializers import PERMISSIONS
from tools_app.mcp.discovery import look, refresh
from tools_app.mcp.offered import PREFIX
from tools_app.mcp.server_input import LONGEST_SECONDS, NAME_PATTERN
from tools_app.mcp.servers import add_server, change_server
from tools_app.models import McpServer


class OfferedSerializer(serializers.Serializer):
    """A tool that a server offers, under the name that policies and agents use."""

    name = serializers.CharField()
    description = serializers.CharField(help_text="The server's own words.")
    input_schema = serializers.DictField()


class McpServerSerializer(serializers.Serializer):
    """A server that brings tools, and what it was last seen to offer."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(
        NAME_PATTERN, help_text="Its tools are named `mcp:NAME:tool`; rules say `mcp:NAME:*`."
    )
    transport = serializers.ChoiceField(choices=McpServer.Transport.choices, required=False)
    url = serializers.CharField(required=False, max_length=500, help_text="Of a server over HTTP.")
    headers = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="Credentials are named, not written: `Bearer {{vault:NAME}}`.",
    )
    command = serializers.CharField(
        required=False, max_length=2_000, help_text="Of a server over stdio; runs in the sandbox."
    )
    enabled = serializers.BooleanField(required=False)
    permission = serializers.ChoiceField(
        choices=PERMISSIONS,
        required=False,
        help_text="Whether a person is asked first when no policy says otherwise.",
    )
    timeout_seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=LONGEST_SECONDS
    )
    repeatable_tools = serializers.ListField(
        child=serializers.CharField(max_length=100),
        required=False,
        help_text="Tools (names or globs) that may run twice after a crash. By default none.",
    )
    status = serializers.ChoiceField(choices=McpServer.Status.choices, read_only=True)
    error = serializers.CharField(read_only=True)
    tools = serializers.SerializerMethodField()
    left_out = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Why some tools are not offered."
    )
    protocol = serializers.CharField(read_only=True)
    server_info = serializers.CharField(read_only=True)
    refreshed_at = serializers.DateTimeField(read_only=True, allow_null=True)
    tried_at = serializers.DateTimeField(read_only=True, allow_null=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)

    @extend_schema_field(OfferedSerializer(many=True))
    def get_tools(self, server: McpServer) -> list[dict[str, Any]]:
        return [{**tool, "name": f"{PREFIX}:{server.name}:{tool['name']}"} for tool in server.tools]


class SeenSerializer(serializers.Serializer):
    """How asking a server went."""

    ok = serializers.BooleanField()
    error = serializers.CharField()
    state = serializers.CharField()
    tools = serializers.IntegerField(help_text="How many it offers that can be used.")
    seconds = serializers.FloatField()


@documented(
    list="The workspace's MCP servers, with the tools that each was last seen to offer.",
    retrieve="One server.",
    create="Make a server known. It is asked for its tools soon, or by `refresh` at once.",
    update="Describe the server anew; what is not named gets its default.",
    destroy="Take the server away, and its tools with it.",
)
class McpServerViewSet(NamedRowViewSet):
    queryset = McpServer.objects.all()
    serializer_class = McpServerSerializer
    filterset_fields = ["name", "status", "enabled"]
    verbs = {**written_by("admin"), "refresh": "build", "test": "build"}

    def make(self, **given: Any) -> McpServer:
        return add_server(**given)

    def change(self, row: McpServer, fields: Mapping[str, Any], *, replace: bool) -> McpServer:
        return change_server(row, fields, replace=replace)

    @extend_schema(request=None, responses=McpServerSerializer)
    @action(detail=True, methods=["post"])
    def refresh(self, request: Request, pk: str) -> Response:
        """Ask the server what it offers, and keep that. `status` and `error` say how it went."""
        return Response(McpServerSerializer(refresh(self.get_object())).data)

    @extend_schema(request=None, responses=SeenSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Ask the server what it offers, and change nothing."""
        return Response(SeenSerializer(look(self.get_object())).data)
