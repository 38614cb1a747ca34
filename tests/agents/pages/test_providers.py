"""Tests of the page of model providers and their keys."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.definitions import DEFAULT_MODELS, find_agent
from agents.model_catalog import facts_of, learn_models
from agents.models import ProviderKey
from agents.providers import keys
from agents.providers.base import ModelFacts
from agents.providers.keys import save_key
from sessions_app.sessions import get_or_create_session
from tests.conftest import add_member
from tests.wire.anthropic import AnthropicWire
from tests.wire.exchange import Exchange
from tests.wire.gemini import GeminiWire
from tests.wire.openai import OpenAIWire

URL = "/settings/providers/"
SECRET = "sk-0123456789-abcdefgh"


@pytest.fixture
def openai(allow):
    with OpenAIWire(key=SECRET) as wire:
        allow(wire)
        yield wire


def state_of(page: str, label: str) -> str:
    found = re.search(rf'{label}</h2><span class="state [^"]*">([^<]+)</span>', page)
    assert found
    return found[1]


def test_the_page_says_that_the_operators_key_is_not_for_tenants(
    browser_client, workspace, monkeypatch
):
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-of-the-operator")
    page = browser_client.get(URL).text

    assert state_of(page, "Google Gemini") == "Not set"
    assert "The operator's key does not serve this workspace" in page
    assert "only serves workspaces of the operator" in page


def test_each_provider_shows_its_state(browser_client, operator, workspace, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-of-the-operator")
    page = browser_client.get(URL).text

    assert state_of(page, "Google Gemini") == "From the environment"
    assert state_of(page, "OpenAI or compatible") == "Not set"
    assert state_of(page, r"Demo \(not a model\)") == "Built in"
    assert "AIza-of-the-operator" not in page


def test_a_saved_key_is_tested_and_never_shown(browser_client, workspace, owner, openai):
    form = {"api_key": SECRET, "base_url": openai.url}
    page = browser_client.post(f"{URL}openai/", form, follow=True).text

    key = ProviderKey.objects.get()
    assert (key.workspace, key.provider, key.secret) == (workspace, "openai", SECRET)
    assert (key.created_by, key.check_error) == (owner, "")
    assert "was saved and works." in page
    assert state_of(page, "OpenAI or compatible") == "Key set"
    assert SECRET not in page
    assert "…efgh" in page
    assert openai.url in page


def test_a_key_that_does_not_work_is_saved_with_an_error(browser_client, workspace, openai):
    form = {"api_key": "sk-wrong-0123456789", "base_url": openai.url}
    page = browser_client.post(f"{URL}openai/", form, follow=True).text

    assert "does not work" in page
    assert state_of(page, "OpenAI or compatible") == "Does not work"
    assert "sk-wrong-0123456789" not in page


def test_the_connection_is_tested_with_the_stored_key(browser_client, workspace, allow):
    with GeminiWire(key=SECRET) as wire:
        save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET, base_url=allow(wire))
        page = browser_client.post(f"{URL}gemini/test/", follow=True).text

    assert "Google Gemini works." in page
    assert ProviderKey.objects.get().checked_at is not None


def test_a_connection_test_without_a_key_is_refused(browser_client, workspace):
    page = browser_client.post(f"{URL}gemini/test/", follow=True).text

    assert "No key is set for Google Gemini." in page


@pytest.mark.parametrize(
    ("name", "form", "complaint"),
    [
        ("gemini", {"api_key": ""}, "This field is required."),
        ("openai", {"api_key": "", "base_url": ""}, "OpenAI or compatible needs a key."),
        ("openai", {"api_key": "with space"}, "without spaces"),
        ("openai", {"api_key": SECRET, "base_url": "ftp://x"}, "must begin with http"),
        ("demo", {"api_key": SECRET}, "does not need a key"),
    ],
)
def test_an_invalid_form_shows_its_errors(browser_client, workspace, name, form, complaint):
    answer = browser_client.post(f"{URL}{name}/", form)

    assert answer.status_code == 400
    if name != "demo":
        assert complaint in answer.text
    assert not ProviderKey.objects.exists()
    assert SECRET not in answer.text


def test_a_compatible_server_can_be_saved_without_a_key(browser_client, workspace, openai):
    browser_client.post(f"{URL}openai/", {"base_url": openai.url})

    key = ProviderKey.objects.get()
    assert (key.base_url, key.secret) == (openai.url, None)


def test_a_key_can_be_removed(browser_client, workspace):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    page = browser_client.post(f"{URL}gemini/remove/", follow=True).text

    assert "The key for Google Gemini was deleted." in page
    assert not ProviderKey.objects.exists()
    assert browser_client.post(f"{URL}gemini/remove/").status_code == 404


@pytest.mark.parametrize("role", ["viewer", "builder"])
def test_members_who_are_not_admins_see_the_state_but_cannot_change_keys(workspace, role):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    client = Client()
    client.force_login(add_member(workspace, role))
    page = client.get(URL).text

    assert state_of(page, "Google Gemini") == "Key set"
    assert "Ask an admin to add a key." in page
    assert 'type="password"' not in page
    for action in ("gemini/", "gemini/test/", "gemini/remove/"):
        assert client.post(URL + action, {"api_key": "another-key"}).status_code == 403
    assert ProviderKey.objects.get().secret == SECRET


def test_an_unknown_provider_is_not_found(browser_client, workspace):
    for action in ("skynet/", "skynet/test/", "skynet/remove/"):
        assert browser_client.post(URL + action, {"api_key": SECRET}).status_code == 404


def test_a_key_of_another_workspace_is_neither_shown_nor_removed(
    browser_client, workspace, foreign_workspace
):
    save_key(workspace_id=foreign_workspace.pk, provider="gemini", api_key=SECRET)

    assert state_of(browser_client.get(URL).text, "Google Gemini") == "Not set"
    assert browser_client.post(f"{URL}gemini/remove/").status_code == 404
    assert ProviderKey.objects.count() == 1


def test_the_default_model_is_listed_first(browser_client, workspace):
    page = browser_client.get(URL).text
    shown = re.findall(r'<code class="tag">([^<]+)</code>', page)

    assert DEFAULT_MODELS["gemini"] == shown[0]
    assert DEFAULT_MODELS["openai"] in shown
    assert "demo" not in shown


def test_the_page_takes_one_query_for_all_keys(browser_client, workspace):
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            browser_client.get(URL)
        return len(captured)

    before = count()
    for provider in ("gemini", "openai"):
        save_key(workspace_id=workspace.pk, provider=provider, api_key=SECRET)

    assert count() <= before


def test_a_saved_server_is_used_by_all_agents_in_one_more_step(
    browser_client, workspace, owner, openai
):
    openai.entries = [{"id": "llama-3.1", "max_model_len": 32_768}]
    chat, _ = get_or_create_session(agent=find_agent(workspace.pk, "Coder"))
    page = browser_client.post(
        f"{URL}openai/", {"api_key": SECRET, "base_url": openai.url}, follow=True
    ).text
    assert "Choose a model to use it for all agents." in page
    assert '<option value="llama-3.1">llama-3.1 · 33k tokens</option>' in page
    form = {"model": "llama-3.1", "move_chats": "on"}
    page = browser_client.post(f"{URL}openai/use/", form, follow=True).text

    assert "Concierge" in page
    assert "now use llama-3.1." in page
    assert "1 open chat moved to it." in page
    assert "<strong>llama-3.1</strong> is the default model of this workspace." in page
    assert find_agent(workspace.pk, "Coder").current.model == "llama-3.1"
    chat.refresh_from_db()
    assert chat.agent_version.model == "llama-3.1"


def test_chats_that_are_not_moved_are_counted_and_can_move_later(
    browser_client, workspace, owner, openai
):
    openai.entries = [{"id": "llama-3.1"}]
    chat, _ = get_or_create_session(agent=find_agent(workspace.pk, "Coder"), created_by_id=owner.pk)
    save_key(
        workspace_id=workspace.pk, provider="openai", api_key=SECRET, base_url=openai.url, by=owner
    )
    learn_models(workspace.pk, "openai")
    page = browser_client.post(f"{URL}openai/use/", {"model": "llama-3.1"}, follow=True).text
    assert "1 open chat stays on the model used so far." in page
    page = browser_client.get(f"/chat/{chat.pk}/").text
    assert "Use v2 in this chat" in page
    page = browser_client.post(f"/chat/{chat.pk}/newest/", follow=True).text

    assert "Use v2 in this chat" not in page
    chat.refresh_from_db()
    assert chat.agent_version.model == "llama-3.1"


def test_only_a_listed_model_can_be_chosen(browser_client, workspace, owner, openai):
    openai.entries = [{"id": "llama-3.1"}]
    save_key(
        workspace_id=workspace.pk, provider="openai", api_key=SECRET, base_url=openai.url, by=owner
    )
    learn_models(workspace.pk, "openai")
    page = browser_client.post(f"{URL}openai/use/", {"model": "other"}, follow=True).text

    assert "Choose one of the models." in page
    assert find_agent(workspace.pk, "Coder").current.model == "demo"


def test_the_window_of_a_model_is_set_on_the_page(browser_client, workspace, owner, openai):
    save_key(
        workspace_id=workspace.pk, provider="openai", api_key=SECRET, base_url=openai.url, by=owner
    )
    form = {"model": "", "window": "8192", "tools": "false"}
    page = browser_client.post(f"{URL}openai/facts/", form, follow=True).text

    assert "Every model: window 8,192, tools no" in page
    assert facts_of(workspace.pk, "openai", "any") == ModelFacts(window=8_192, tools=False)
    page = browser_client.post(f"{URL}openai/facts/", {"window": "0"}, follow=True).text
    assert "greater than or equal to 1" in page


class OpenServer(OpenAIWire):
    """A server that asks for no key."""

    def _check_key(self, exchange: Exchange) -> None:
        pass


@pytest.fixture
def ollama(monkeypatch):
    """Run a model server on this machine where Ollama would be, and nothing else."""
    with OpenServer(entries=[{"id": "llama3.2:latest"}]) as wire:
        here = keys.ModelServer(label="Ollama", base_url=wire.url)
        closed = keys.ModelServer(label="llama.cpp", base_url="http://127.0.0.1:9/v1")
        monkeypatch.setattr(keys, "LOCAL_SERVERS", (here, closed))
        yield wire


def test_a_model_server_on_this_machine_is_offered_and_used(
    browser_client, operator, workspace, ollama
):
    page = browser_client.get(URL).text
    assert "Ollama on this machine" in page
    assert "llama.cpp on this machine" not in page
    page = browser_client.post(f"{URL}openai/", {"base_url": ollama.url}, follow=True).text

    assert "was saved and works." in page
    assert '<option value="llama3.2:latest">' in page
    assert "Ollama on this machine" not in page


@pytest.mark.parametrize("why", ["another account", "reachable from outside", "no operator"])
def test_servers_on_a_shared_machine_are_not_offered_and_not_reached(
    browser_client, owner, workspace, ollama, settings, why
):
    owner.is_staff = why != "no operator"
    owner.save()
    if why == "another account":
        add_member(workspace, "viewer")
    if why == "reachable from outside":
        settings.HOST = "192.0.2.1"
    assert "Ollama on this machine" not in browser_client.get(URL).text
    assert ollama.requests == []
    if why != "another account":
        page = browser_client.post(f"{URL}openai/", {"base_url": ollama.url}, follow=True).text
        assert "does not work" in page
        assert ollama.requests == []


def test_an_anthropic_key_is_saved_tested_and_used_for_all_agents(
    browser_client, workspace, owner, monkeypatch
):
    with AnthropicWire(key=SECRET) as wire:
        monkeypatch.setattr("agents.providers.anthropic.ANTHROPIC_URL", wire.url)
        page = browser_client.post(f"{URL}anthropic/", {"api_key": SECRET}, follow=True).text
        assert state_of(page, "Anthropic") == "Key set"
        assert "was saved and works." in page
        assert '<option value="claude-opus-4-6">' in page
        form = {"model": "claude-sonnet-5-5", "move_chats": "on"}
        page = browser_client.post(f"{URL}anthropic/use/", form, follow=True).text

    assert "use claude-sonnet-5-5." in page
    assert SECRET not in page


def test_known_servers_can_be_chosen_as_the_address(browser_client, workspace):
    page = browser_client.get(URL).text

    assert 'list="known-servers"' in page
    for server in keys.PRESETS["openai"]:
        assert f'<option value="{server.base_url}">{server.label}</option>' in page
