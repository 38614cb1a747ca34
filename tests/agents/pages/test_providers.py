"""Tests of the page of model providers and their keys."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.definitions import DEFAULT_MODELS
from agents.models import ProviderKey
from agents.providers.keys import save_key
from tests.conftest import add_member
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


def test_each_provider_shows_its_state(browser_client, workspace, monkeypatch):
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

    assert count() == before
