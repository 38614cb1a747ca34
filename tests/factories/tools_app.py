"""Creates rows of policies, tools, servers and skills."""

from __future__ import annotations

from core.ids import uuid7
from tests.factories.agents import agent
from tests.factories.base import Factory, numbers, user
from tools_app.models import CustomTool, McpServer, PolicyRevision, Skill, ToolPolicy

FACTORIES: dict[str, Factory] = {
    "tools_app.ToolPolicy": lambda workspace: ToolPolicy.objects.create(
        workspace=workspace, layer="agent", subject_id=agent(workspace).pk, created_by=user()
    ),
    "tools_app.PolicyRevision": lambda workspace: PolicyRevision.objects.create(
        workspace=workspace,
        policy=ToolPolicy.objects.create(workspace=workspace, layer="agent", subject_id=uuid7()),
        revision=1,
        created_by=user(),
    ),
    "tools_app.CustomTool": lambda workspace: CustomTool.objects.create(
        workspace=workspace, name=f"own_{next(numbers)}", description="x", created_by=user()
    ),
    "tools_app.McpServer": lambda workspace: McpServer.objects.create(
        workspace=workspace,
        name=f"server-{next(numbers)}",
        url="https://mcp.example/",
        created_by=user(),
    ),
    "tools_app.Skill": lambda workspace: Skill.objects.create(
        workspace=workspace,
        name=f"skill-{next(numbers)}",
        description="How it is done.",
        body="Never shown to staff.",
        created_by=user(),
    ),
}
