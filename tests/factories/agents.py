"""Creates rows of agents, drafts, canvases and provider keys."""

from __future__ import annotations

from agents.definitions import create_agent
from agents.models import (
    Agent,
    AgentDraft,
    AgentVersion,
    Canvas,
    CanvasRevision,
    DraftChange,
    Environment,
    ProviderKey,
    ProviderSettings,
)
from tenants.models import Workspace
from tests.factories.base import Factory, numbers, user


def agent(workspace: Workspace) -> Agent:
    fields = {"name": f"Agent {next(numbers)}", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=user())


FACTORIES: dict[str, Factory] = {
    "agents.Agent": agent,
    "agents.AgentVersion": lambda workspace: AgentVersion.objects.get(agent=agent(workspace)),
    "agents.Canvas": lambda workspace: Canvas.objects.create(
        workspace=workspace, agent=agent(workspace), created_by=user()
    ),
    "agents.CanvasRevision": lambda workspace: CanvasRevision.objects.create(
        workspace=workspace, agent=agent(workspace), number=1, created_by=user()
    ),
    "agents.AgentDraft": lambda workspace: AgentDraft.objects.create(
        workspace=workspace, agent=agent(workspace), revision=1, fields={"name": "Other"}
    ),
    "agents.DraftChange": lambda workspace: DraftChange.objects.create(
        workspace=workspace, agent=agent(workspace), revision=1, part="name", after="Other"
    ),
    "agents.Environment": lambda workspace: Environment.objects.create(
        workspace=workspace, name=f"Place {next(numbers)}", created_by=user()
    ),
    "agents.ProviderKey": lambda workspace: ProviderKey.objects.create(
        workspace=workspace,
        provider=f"p{next(numbers)}",
        secret="never-shown-to-anyone",
        created_by=user(),
    ),
    "agents.ProviderSettings": lambda workspace: ProviderSettings.objects.create(
        workspace=workspace, provider=f"p{next(numbers)}", created_by=user()
    ),
}
