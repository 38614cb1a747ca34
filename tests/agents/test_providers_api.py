"""Tests of providers and models over REST: keys are written and never returned."""

from __future__ import annotations

import json

import pytest

from agents.models import ProviderKey
from tests.conftest import key_client
from tests.wire.openai import OpenAIWire

PROVIDERS = "/api/v1/providers/"
SECRET = "sk-0123456789-abcdefg"


def provider(api, name: str) -> dict:
    listed = api.get(PROVIDERS).json()["results"]
    return next(one for one in listed if one["name"] == name)


def test_a_new_workspace_has_only_the_demo_provider(api):
    listed = api.get(PROVIDERS).json()["results"]

    assert {one["name"]: one["configured"] for one in listed} == {
        "gemini": False,
        "openai": False,
        "anthropic": False,
        "demo": True,
    }


def test_a_saved_key_is_never_returned(api, workspace, owner):
    put = api.put(f"{PROVIDERS}openai/", {"api_key": SECRET}, format="json")

    assert put.status_code == 200
    shown = put.json()
    assert (shown["configured"], shown["key_source"], shown["hint"]) == (True, "workspace", "defg")
    assert shown["created_by"] == str(owner.pk)
    assert ProviderKey.objects.get().secret == SECRET
    for answer in (
        put,
        api.get(PROVIDERS),
        api.get(f"{PROVIDERS}openai/"),
        api.get("/api/v1/models/"),
    ):
        assert SECRET not in answer.content.decode()
        assert "api_key" not in answer.content.decode()


def test_only_the_source_of_an_operators_key_is_shown(api, operator, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://inside.example:8000/v1")

    shown = provider(api, "openai")

    assert (shown["configured"], shown["key_source"]) == (True, "environment")
    assert "inside" not in json.dumps(shown)
    assert SECRET[-4:] not in json.dumps(shown)


def test_a_key_can_be_removed(api):
    api.put(f"{PROVIDERS}openai/", {"api_key": SECRET}, format="json")

    assert api.delete(f"{PROVIDERS}openai/").status_code == 204
    assert provider(api, "openai")["configured"] is False
    assert api.delete(f"{PROVIDERS}openai/").status_code == 404


def test_the_result_of_a_connection_test_is_stored(api, allow):
    with OpenAIWire(key=SECRET) as server:
        body = {"api_key": SECRET, "base_url": allow(server)}
        api.put(f"{PROVIDERS}openai/", body, format="json")
        good = api.post(f"{PROVIDERS}openai/test/", {"model": "gpt-4o-mini"}, format="json")
        api.put(f"{PROVIDERS}openai/", {**body, "api_key": f"{SECRET}-wrong"}, format="json")
        bad = api.post(f"{PROVIDERS}openai/test/", {}, format="json")

    assert (good.status_code, good.json()["ok"]) == (200, True)
    assert (bad.status_code, bad.json()["ok"]) == (200, False)
    assert SECRET not in bad.content.decode()
    shown = provider(api, "openai")
    assert shown["check_error"] == bad.json()["error"]
    assert shown["checked_at"] == bad.json()["checked_at"]


def test_a_connection_test_needs_a_key(api):
    answer = api.post(f"{PROVIDERS}gemini/test/", {}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (409, "provider_not_configured")


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("gemini", {}, 400),
        ("gemini", {"api_key": ["x"]}, 400),
        ("gemini", {"api_key": "two words"}, 400),
        ("openai", {"base_url": "nowhere"}, 400),
        ("demo", {"api_key": SECRET}, 400),
        ("skynet", {"api_key": SECRET}, 404),
    ],
)
def test_an_invalid_key_is_refused(api, name, body, status):
    answer = api.put(f"{PROVIDERS}{name}/", body, format="json")

    assert answer.status_code == status
    assert answer["content-type"] == "application/problem+json"
    assert not ProviderKey.objects.exists()


def test_only_an_admin_can_manage_keys(workspace):
    program = key_client(workspace, "run")

    assert program.get(PROVIDERS).status_code == 200
    assert program.put(f"{PROVIDERS}openai/", {"api_key": SECRET}, format="json").status_code == 403
    assert program.delete(f"{PROVIDERS}openai/").status_code == 403
    assert program.post(f"{PROVIDERS}demo/test/", {}, format="json").status_code == 403
    # Permissions are checked before the provider's name.
    assert program.put(f"{PROVIDERS}skynet/", {}, format="json").status_code == 403


def test_a_key_stays_in_its_workspace(api, foreign_api):
    api.put(f"{PROVIDERS}openai/", {"api_key": SECRET}, format="json")

    assert provider(foreign_api, "openai")["configured"] is False
    assert foreign_api.delete(f"{PROVIDERS}openai/").status_code == 404


def test_models_show_window_price_and_whether_they_are_usable(api):
    before = {
        (one["provider"], one["name"]): one for one in api.get("/api/v1/models/").json()["results"]
    }
    api.put(f"{PROVIDERS}gemini/", {"api_key": "AIza-0123456789-abc"}, format="json")
    after = {
        (one["provider"], one["name"]): one for one in api.get("/api/v1/models/").json()["results"]
    }

    demo, gemini = ("demo", "demo"), ("gemini", "gemini-2.5-pro")
    assert (before[demo]["usable"], before[demo]["default"]) == (True, True)
    assert before[gemini]["usable"] is False
    assert after[gemini]["usable"] is True
    assert after[gemini]["window"] == 1_048_576
    assert float(after[gemini]["output_price"]) > float(after[gemini]["input_price"]) > 0
    assert [one["provider"] for one in after.values() if one["default"]] == ["gemini"]
