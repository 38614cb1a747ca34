"""Tests what happens to agents when people and workspaces are deleted."""

from __future__ import annotations

import pytest

from agents.canvas.revisions import Author, save
from agents.definitions import create_agent
from agents.environments import create_environment
from agents.models import Agent, AgentVersion, CanvasRevision, Environment, ProviderKey
from agents.providers.keys import save_key
from orchestrator.workspaces import erase_workspace
from tenants.models import User, Workspace


@pytest.mark.django_db(transaction=True)
def test_deleting_a_person_leaves_their_agents_without_an_author(
    owner: User, workspace: Workspace
) -> None:
    owner.delete()

    assert AgentVersion.objects.filter(workspace=workspace, created_by=None).count() == 3
    assert Agent.objects.filter(workspace=workspace, created_by=None).count() == 3


@pytest.mark.django_db(transaction=True)
def test_deleting_a_person_leaves_their_canvas_without_an_author(
    owner: User, workspace: Workspace
) -> None:
    agent = Agent.objects.filter(workspace=workspace).first()
    start = {"id": "start", "type": "trigger"}
    save(agent, nodes=[start], edges=[], revision=0, author=Author(user_id=owner.pk))

    owner.delete()

    assert CanvasRevision.objects.get(agent=agent).created_by is None


@pytest.mark.django_db(transaction=True)
def test_erasing_a_workspace_erases_its_agents_environments_and_keys(
    workspace: Workspace, foreign_workspace: Workspace
) -> None:
    create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    create_agent(workspace_id=workspace.pk, fields={"name": "Boxed", "environment": "box"})
    save_key(workspace_id=workspace.pk, provider="gemini", api_key="AIza-0123456789abcdef")

    erase_workspace(workspace)

    assert set(AgentVersion.objects.values_list("workspace", flat=True)) == {foreign_workspace.pk}
    assert set(Environment.objects.values_list("workspace", flat=True)) == {foreign_workspace.pk}
    assert not ProviderKey.objects.exists()


def test_a_server_without_a_key_can_be_saved(workspace: Workspace) -> None:
    save_key(workspace_id=workspace.pk, provider="openai", base_url="http://localhost:11434/v1")

    assert ProviderKey.objects.get().secret is None
