"""REST: the tools of a workspace and of an agent, custom tools, MCP servers and skills."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import NamedRowViewSet, documented, write_verbs
from core.pagination import whole_page, whole_page_of
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app import workspace_tools
from tools_app.api.policies import DECISIONS, agent_policy
from tools_app.mcp.servers import (
    LONGEST_SECONDS,
    SERVER_NAME_PATTERN,
    add_server,
    change_server,
    probe,
    refresh,
)
from tools_app.mcp.tools import PREFIX
from tools_app.models import CustomTool, McpServer, Skill
from tools_app.registry import Effect, Ownership, Permission, Tool, categories
from tools_app.skills import LONGEST_BODY, SKILL_NAME_PATTERN, change_skill, create_skill

PERMISSIONS = [(name, name) for name in get_args(Permission)]


class ToolSerializer(serializers.Serializer):
    """A tool that agents can be given."""

    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    category = serializers.ChoiceField(choices=[(one, one) for one in categories()])
    ownership = serializers.ChoiceField(choices=[(one, one) for one in get_args(Ownership)])
    permission = serializers.ChoiceField(choices=PERMISSIONS)
    effects = serializers.ListField(
        child=serializers.ChoiceField(choices=[(one.value, one.value) for one in Effect])
    )
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    idempotent = serializers.BooleanField()
    seconds = serializers.FloatField(help_text="The time limit of one call.")
    input_schema = serializers.DictField()


class EffectiveToolSerializer(ToolSerializer):
    """A tool of an agent, with the decision on its calls."""

    decision = serializers.ChoiceField(choices=DECISIONS)
    decided_by = serializers.CharField()


def describe_tool(tool: Tool) -> dict[str, Any]:
    """Return the tool as the REST API shows it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "category": str(tool.category),
        "ownership": tool.ownership,
        "permission": tool.permission,
        "effects": sorted(effect.value for effect in tool.effects),
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
        "seconds": tool.seconds,
        "input_schema": tool.spec.json_schema,
    }


class ToolListView(APIView):
    @extend_schema(operation_id="tools_list", responses=whole_page_of(ToolSerializer))
    def get(self, request: Request) -> Response:
        """List all tools of the workspace, with what they do and whether they ask by default."""
        tools = workspace_tools.tools_of_workspace(authorise(principal_of(request), "read"))
        return whole_page([describe_tool(tools[name]) for name in sorted(tools)])


class AgentToolsView(APIView):
    @extend_schema(
        operation_id="agents_tools_list", responses=whole_page_of(EffectiveToolSerializer)
    )
    def get(self, request: Request, agent_id: UUID) -> Response:
        """List the tools of the agent with their schemas, and whether a call asks first."""
        policy = agent_policy(principal_of(request), agent_id)
        return whole_page(
            [
                {
                    **describe_tool(tool),
                    "decision": policy[name].decision,
                    "decided_by": policy[name].decided_by,
                }
                for name, tool in sorted(policy.offered().items())
            ]
        )


class CustomToolSerializer(serializers.Serializer):
    """A tool that a client runs. Each call is sent as an event and waits for its result."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(workspace_tools.TOOL_NAME_PATTERN)
    description = serializers.CharField(
        max_length=4_000, help_text="What it does and when to use it. The model reads this."
    )
    input_schema = serializers.DictField(
        required=False, help_text="A JSON Schema of an object. Without properties by default."
    )
    permission = serializers.ChoiceField(
        choices=PERMISSIONS,
        required=False,
        help_text="Whether a person is asked first when no policy says otherwise.",
    )
    timeout_seconds = serializers.IntegerField(
        min_value=1,
        max_value=workspace_tools.LONGEST_WAIT,
        required=False,
        help_text="How long a call waits for its result. The default is 300.",
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


@documented(
    list="List the custom tools of the workspace, newest first.",
    retrieve="Return one custom tool.",
    create="Create a custom tool. Agents whose policy allows it get it in their next run.",
    update="Replace the custom tool; fields that are left out get their defaults.",
    destroy="Delete the custom tool. Pending calls can still be answered.",
)
class CustomToolViewSet(NamedRowViewSet):
    queryset = CustomTool.objects.all()
    serializer_class = CustomToolSerializer
    filterset_fields = ["name"]

    make = staticmethod(workspace_tools.create_custom_tool)
    change = staticmethod(workspace_tools.change_custom_tool)


class OfferedSerializer(serializers.Serializer):
    """A tool that a server offers, under the name that policies and agents use."""

    name = serializers.CharField()
    description = serializers.CharField(help_text="As the server describes it.")
    input_schema = serializers.DictField()


class McpServerSerializer(serializers.Serializer):
    """A server that provides tools, and the tools it offered when it was last asked."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(
        SERVER_NAME_PATTERN,
        help_text="Its tools are named `mcp:NAME:tool`; rules say `mcp:NAME:*`.",
    )
    transport = serializers.ChoiceField(choices=McpServer.Transport.choices, required=False)
    url = serializers.CharField(
        required=False, max_length=500, help_text="The address, for a server over HTTP."
    )
    headers = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="Name credentials instead of writing them: `Bearer {{vault:NAME}}`.",
    )
    command = serializers.CharField(
        required=False,
        max_length=2_000,
        help_text="The command, for a server over stdio. It runs in the sandbox.",
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
        help_text="Tools (names or globs) that may run twice after a crash. None by default.",
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
    """The outcome of asking a server for its tools."""

    ok = serializers.BooleanField()
    error = serializers.CharField()
    state = serializers.CharField()
    tools = serializers.IntegerField(help_text="The number of usable tools it offers.")
    seconds = serializers.FloatField()


@documented(
    list="List the MCP servers of the workspace, with the tools each offered when last asked.",
    retrieve="Return one server.",
    create="Add a server. It is asked for its tools soon; `refresh` asks it at once.",
    update="Replace the server; fields that are left out get their defaults.",
    destroy="Delete the server and its tools.",
)
class McpServerViewSet(NamedRowViewSet):
    queryset = McpServer.objects.all()
    serializer_class = McpServerSerializer
    filterset_fields = ["name", "status", "enabled"]
    verbs = {**write_verbs("admin"), "refresh": "build", "test": "build"}

    make = staticmethod(add_server)
    change = staticmethod(change_server)

    @extend_schema(request=None, responses=McpServerSerializer)
    @action(detail=True, methods=["post"])
    def refresh(self, request: Request, pk: str) -> Response:
        """Ask the server for its tools and store them. `status` and `error` say how it went."""
        return Response(McpServerSerializer(refresh(self.get_object())).data)

    @extend_schema(request=None, responses=SeenSerializer)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Ask the server for its tools and store nothing."""
        return Response(SeenSerializer(probe(self.get_object())).data)


class SkillSerializer(serializers.Serializer):
    """A document that agents know by its description and load when they need it."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(SKILL_NAME_PATTERN)
    description = serializers.CharField(
        max_length=300, help_text="One line for the prompt of every agent that has the skill."
    )
    body = serializers.CharField(max_length=LONGEST_BODY, help_text="Markdown.")
    agents = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        help_text="The agents that have the skill. If empty, all agents of the workspace.",
    )
    enabled = serializers.BooleanField(required=False)
    updated_at = serializers.DateTimeField(read_only=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


@documented(
    list="List the skills of the workspace.",
    retrieve="Return one skill.",
    create="Create a skill. Agents can load it from their next answer on.",
    update="Replace the skill; fields that are left out get their defaults.",
    destroy="Delete the skill.",
)
class SkillViewSet(NamedRowViewSet):
    queryset = Skill.objects.all()
    serializer_class = SkillSerializer
    filterset_fields = ["name", "enabled"]

    make = staticmethod(create_skill)
    change = staticmethod(change_skill)
