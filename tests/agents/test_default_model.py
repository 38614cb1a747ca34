"""Tests of the workspace's default model: who inherits it, and what moves to it."""

from __future__ import annotations

import pytest

from agents.definitions import Choice, create_agent, default_model, find_agent, use_for_all_agents
from agents.models import ProviderSettings
from agents.pages.builder import model_names
from agents.providers.keys import save_key
from sessions_app.builder import get_builder
from sessions_app.sessions import get_or_create_session, move_to_newest
from sessions_app.tools.builder import provider_of_model

LLAMA = Choice(provider="openai", model="llama-3.1")


@pytest.fixture
def own_server(workspace, owner):
    """Save a server of the workspace's own."""
    save_key(workspace_id=workspace.pk, provider="openai", base_url="https://llm.example/v1")


def on(agent) -> tuple[str, str]:
    agent.refresh_from_db()
    return agent.current.provider, agent.current.model


def test_agents_on_the_demo_get_a_version_with_a_note(workspace, owner, own_server):
    own = create_agent(
        workspace_id=workspace.pk, fields={"name": "Own", "provider": "gemini", "model": "mine"}
    )
    moved = use_for_all_agents(workspace.pk, LLAMA, by=owner)

    assert {agent.current.name for agent in moved} == {"Concierge", "Researcher", "Coder"}
    coder = find_agent(workspace.pk, "Coder").current
    assert (coder.provider, coder.model, coder.number) == ("openai", "llama-3.1", 2)
    assert coder.note == "Moved to llama-3.1, the workspace's default."
    assert coder.created_by == owner
    assert on(own) == ("gemini", "mine")


def test_new_agents_and_the_builder_inherit_a_server_of_ones_own(workspace, owner, own_server):
    assert default_model(workspace.pk).provider == "demo"
    builder = get_builder(workspace.pk)
    assert on(builder) == ("demo", "demo")
    use_for_all_agents(workspace.pk, LLAMA, by=owner)

    assert default_model(workspace.pk) == LLAMA
    assert on(create_agent(workspace_id=workspace.pk, fields={"name": "New"})) == (
        "openai",
        "llama-3.1",
    )
    assert on(get_builder(workspace.pk)) == ("openai", "llama-3.1")


def test_the_next_default_moves_those_who_inherited_the_last(workspace, owner, own_server):
    agent = create_agent(workspace_id=workspace.pk, fields={"name": "A"})
    use_for_all_agents(workspace.pk, LLAMA, by=owner)
    other = Choice(provider="gemini", model="gemini-2.5-pro")
    moved = use_for_all_agents(workspace.pk, other, by=owner)

    assert agent in moved
    assert on(agent) == ("gemini", "gemini-2.5-pro")
    assert ProviderSettings.objects.exclude(default_model="").count() == 1
    assert use_for_all_agents(workspace.pk, other, by=owner) == []


def test_a_default_without_a_key_does_not_count(workspace, owner):
    use_for_all_agents(workspace.pk, LLAMA, by=owner)

    assert default_model(workspace.pk) == Choice(provider="demo", model="demo")


def test_a_default_of_a_provider_that_is_gone_does_not_count(workspace):
    ProviderSettings.objects.create(workspace=workspace, provider="gone", default_model="m")

    assert default_model(workspace.pk).provider == "demo"


def test_open_chats_move_to_the_newest_version(workspace, owner, own_server):
    agent = create_agent(workspace_id=workspace.pk, fields={"name": "A"})
    open_chat, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    archived, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    archived.archived_at = archived.created_at
    archived.save()
    moved = use_for_all_agents(workspace.pk, LLAMA, by=owner)

    assert move_to_newest(moved) == 1
    open_chat.refresh_from_db()
    archived.refresh_from_db()
    assert open_chat.agent_version.model == "llama-3.1"
    assert archived.agent_version.model == "demo"


def test_the_default_is_set_over_rest(workspace, api, own_server, owner):
    agent = create_agent(workspace_id=workspace.pk, fields={"name": "A"})
    get_or_create_session(agent=agent, created_by_id=owner.pk)
    body = {"model": "llama-3.1", "move_sessions": True}
    moved = api.post("/api/v1/providers/openai/use/", body, format="json").json()

    assert str(agent.pk) in moved["agents"]
    assert moved["sessions"] == 1
    versions = api.get(f"/api/v1/agents/{agent.pk}/versions/").json()["results"]
    assert versions[0]["note"].startswith("Moved to llama-3.1")
    body = {"model": "gemini-2.5-pro"}
    assert api.post("/api/v1/providers/gemini/use/", body, format="json").status_code == 409


def test_the_builder_and_its_form_know_the_models_of_ones_own_server(workspace, own_server):
    ProviderSettings.objects.create(
        workspace=workspace, provider="openai", listed={"llama-3.1": {"window": 8_192}}
    )

    assert "llama-3.1" in model_names(workspace.pk)
    assert provider_of_model(workspace.pk, "llama-3.1") == {"provider": "openai"}
    assert provider_of_model(workspace.pk, "unheard-of") == {}
