"""Tests of the way from a key, or a model server on this machine, to agents that use it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.definitions import change_agent, find_agent
from agents.providers import keys
from sessions_app.sessions import get_or_create_session
from tests.wire.exchange import Exchange
from tests.wire.openai import OpenAIWire

pytestmark = pytest.mark.django_db(transaction=True)

ENTRIES = [
    {"id": "llama3.2:latest", "max_model_len": 131_072},
    {"id": "qwen2.5-coder:7b", "max_model_len": 32_768},
    {"id": "nomic-embed-text"},
]


class OpenServer(OpenAIWire):
    """A server that asks for no key."""

    def _check_key(self, exchange: Exchange) -> None:
        pass


def test_a_model_server_on_this_machine_answers_for_all_agents_after_three_clicks(
    operator, owner_page: Page, workspace, monkeypatch
):
    page = owner_page
    coder = find_agent(workspace.pk, "Coder")
    chat, _ = get_or_create_session(agent=coder, created_by_id=operator.pk, title="Old chat")
    with OpenServer(entries=ENTRIES) as wire:
        local = (keys.ModelServer(label="Ollama", base_url=wire.url),)
        monkeypatch.setattr(keys, "LOCAL_SERVERS", local)
        page.goto("/settings/providers/")
        page.get_by_role("button", name="Use Ollama").click()
        expect(page.get_by_text("was saved and works.")).to_be_visible()
        panel = page.get_by_role("region", name="OpenAI or compatible")
        panel.get_by_label("Model for all agents").select_option("qwen2.5-coder:7b")
        panel.get_by_role("button", name="Use for all agents").click()
        expect(page.get_by_text("now use qwen2.5-coder:7b.")).to_be_visible()
        expect(page.get_by_text("1 open chat moved to it.")).to_be_visible()

    assert find_agent(workspace.pk, "Coder").current.model == "qwen2.5-coder:7b"
    page.goto(f"/chat/{chat.pk}/")
    expect(page.get_by_text("Coder v2 · qwen2.5-coder:7b")).to_be_visible()


def test_a_chat_can_be_moved_to_the_newest_version(owner_page: Page, workspace, owner):
    page = owner_page
    coder = find_agent(workspace.pk, "Coder")
    chat, _ = get_or_create_session(agent=coder, created_by_id=owner.pk, title="Old chat")
    change_agent(coder, {"provider": "openai", "model": "gpt-4o"})
    page.goto(f"/chat/{chat.pk}/")
    page.get_by_role("button", name="Use v2 in this chat").click()

    expect(page.get_by_text("Coder v2 · gpt-4o")).to_be_visible()
