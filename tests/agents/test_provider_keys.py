"""Tests of provider keys: encryption, connection tests and caching."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection

from agents.definitions import DEFAULT_MODELS, default_model
from agents.exceptions import ProviderNotConfigured, ProviderUnavailable
from agents.model_catalog import known_models, price_call, set_price
from agents.models import ProviderKey
from agents.providers import registry
from agents.providers.base import Message, ModelRequest, TextDelta, Usage
from agents.providers.keys import (
    Source,
    check,
    credentials,
    delete_key,
    provider_for,
    save_key,
    statuses,
)
from core.exceptions import Invalid, NotFound
from core.ids import uuid7
from orchestrator.workspaces import create_workspace
from tenants.models import Membership
from tests.wire.answers import Answer
from tests.wire.gemini import GeminiWire
from tests.wire.openai import OpenAIWire

SECRET = "AIza-0123456789-abcdefg"


def test_a_key_is_encrypted_at_rest(workspace):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)

    with connection.cursor() as cursor:
        cursor.execute("SELECT secret, hint FROM agents_providerkey")
        stored, hint = cursor.fetchone()
    assert SECRET not in stored
    assert hint == "defg"
    assert ProviderKey.objects.get().secret == SECRET


def test_a_short_key_has_no_hint(workspace):
    key = save_key(workspace_id=workspace.pk, provider="gemini", api_key="short-key")

    assert key.hint == ""


def test_the_repr_of_credentials_hides_the_key(workspace):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)

    assert SECRET not in repr(credentials(workspace.pk, "gemini"))


def test_a_second_key_replaces_the_first_and_its_test(workspace):
    first = save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    ProviderKey.objects.update(check_error="was bad")

    second = save_key(workspace_id=workspace.pk, provider="gemini", api_key="AIza-another-key")

    assert second.pk == first.pk
    assert (second.check_error, second.checked_at) == ("", None)
    assert credentials(workspace.pk, "gemini").api_key == "AIza-another-key"


def test_a_new_address_does_not_get_the_old_key(workspace):
    save_key(workspace_id=workspace.pk, provider="openai", api_key=SECRET)
    save_key(workspace_id=workspace.pk, provider="openai", base_url="https://elsewhere.example/v1")

    found = credentials(workspace.pk, "openai")
    assert (found.api_key, found.base_url) == (None, "https://elsewhere.example/v1")


def test_a_workspace_address_does_not_get_the_operators_key(workspace, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    save_key(workspace_id=workspace.pk, provider="openai", base_url="https://elsewhere.example/v1")

    assert credentials(workspace.pk, "openai").api_key is None


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("gemini", {}),
        ("gemini", {"base_url": "https://elsewhere.example"}),
        ("openai", {"api_key": "   "}),
        ("demo", {"api_key": SECRET}),
        ("skynet", {"api_key": SECRET}),
        ("gemini", {"api_key": f"{SECRET}\nX-Header: 1"}),
        ("gemini", {"api_key": "schlüssel-0123456789"}),
        ("openai", {"base_url": "ftp://elsewhere.example"}),
        ("openai", {"base_url": "https://"}),
        ("openai", {"base_url": "https://[::1"}),
        ("openai", {"base_url": "https://me:word@elsewhere.example"}),
        ("openai", {"base_url": "https://elsewhere.example/?key=1"}),
    ],
)
def test_an_invalid_key_or_address_is_refused_without_quoting_the_key(workspace, provider, fields):
    with pytest.raises(Invalid) as caught:
        save_key(workspace_id=workspace.pk, provider=provider, **fields)

    assert SECRET not in caught.value.detail
    assert not ProviderKey.objects.exists()


def test_a_workspace_key_takes_precedence_over_the_environment(workspace, operator, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")
    assert credentials(workspace.pk, "gemini").source is Source.ENVIRONMENT

    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    assert credentials(workspace.pk, "gemini").api_key == SECRET

    delete_key(workspace_id=workspace.pk, provider="gemini")
    assert credentials(workspace.pk, "gemini").api_key == "from-the-environment"
    with pytest.raises(NotFound):
        delete_key(workspace_id=workspace.pk, provider="gemini")


def test_a_key_of_another_workspace_is_not_used(workspace, foreign_workspace):
    save_key(workspace_id=foreign_workspace.pk, provider="gemini", api_key=SECRET)

    with pytest.raises(ProviderNotConfigured, match="No key is set for Google Gemini"):
        provider_for(workspace.pk, "gemini")


def test_a_provider_takes_one_query_and_is_then_cached(workspace, django_assert_num_queries):
    # Importing the vendor's SDK may take longer than a key is cached.
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    provider_for(workspace.pk, "gemini")
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)

    with django_assert_num_queries(1):
        provider_for(workspace.pk, "gemini")
    with django_assert_num_queries(0):
        provider_for(workspace.pk, "gemini")


def test_calls_with_different_timeouts_share_a_client(workspace):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    provider_for(workspace.pk, "gemini", 1700.5)
    made = registry._cached_provider.cache_info().misses

    for seconds_left in (1699.2, 1500, 130.7):
        provider_for(workspace.pk, "gemini", seconds_left)

    assert registry._cached_provider.cache_info().misses == made


def test_a_missing_key_is_cached_too(workspace, operator, monkeypatch, django_assert_num_queries):
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")

    with django_assert_num_queries(2):  # the key, and whether the workspace is the operator's
        credentials(workspace.pk, "gemini")
        credentials(workspace.pk, "gemini")


def test_the_demo_provider_takes_no_query(django_assert_num_queries, db):
    with django_assert_num_queries(0):
        provider_for(uuid7(), "demo")


def test_a_key_that_cannot_be_decrypted_is_reported_and_never_sent(workspace):
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agents_providerkey SET secret = 'gAAAAABbroken'")

    with pytest.raises(ProviderNotConfigured, match="can no longer be decrypted"):
        provider_for(workspace.pk, "gemini")


@pytest.mark.parametrize(("provider", "wire"), [("gemini", GeminiWire), ("openai", OpenAIWire)])
def test_a_successful_connection_test_is_stored(workspace, provider, wire, allow):
    with wire(key=SECRET) as server:
        save_key(
            workspace_id=workspace.pk, provider=provider, api_key=SECRET, base_url=allow(server)
        )
        found = check(workspace_id=workspace.pk, provider=provider)

    key = ProviderKey.objects.get()
    assert (found.ok, found.error) == (True, "")
    assert (key.check_error, key.checked_at) == ("", found.checked_at)


@pytest.mark.parametrize(("provider", "wire"), [("gemini", GeminiWire), ("openai", OpenAIWire)])
def test_a_refused_key_is_reported_without_the_key(workspace, provider, wire, allow):
    with wire(key="the-right-one") as server:
        save_key(
            workspace_id=workspace.pk, provider=provider, api_key=SECRET, base_url=allow(server)
        )
        found = check(workspace_id=workspace.pk, provider=provider)

    assert not found.ok
    assert found.error
    assert SECRET not in found.error
    assert ProviderKey.objects.get().check_error == found.error


def test_an_error_that_quotes_the_key_is_stored_without_it(workspace, monkeypatch):
    def quote(*args: object, **kwargs: object) -> None:
        raise ProviderUnavailable(f"Your key {SECRET} is odd.")

    monkeypatch.setattr("agents.providers.registry.check_connection", quote)
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)

    found = check(workspace_id=workspace.pk, provider="gemini")

    assert found.error == "Your key [key] is odd."
    assert ProviderKey.objects.get().check_error == found.error


@pytest.mark.parametrize(("provider", "wire"), [("gemini", GeminiWire), ("openai", OpenAIWire)])
def test_an_address_inside_the_operators_network_is_not_contacted(workspace, provider, wire):
    with wire(key=SECRET) as server:
        save_key(workspace_id=workspace.pk, provider=provider, api_key=SECRET, base_url=server.url)
        found = check(workspace_id=workspace.pk, provider=provider)
        request = ModelRequest(
            model="gpt-4o-mini", instructions="", messages=(Message(role="user", text="hi"),)
        )
        with pytest.raises(ProviderUnavailable, match="not on the public internet"):
            list(provider_for(workspace.pk, provider).stream(request))
        assert server.requests == []

    assert "EGRESS_ALLOWED_PRIVATE" in found.error


def test_a_private_server_is_used_when_the_operator_allows_it(workspace, allow):
    with OpenAIWire([Answer(text=("Hello ", "you"))], key=SECRET) as server:
        save_key(
            workspace_id=workspace.pk, provider="openai", api_key=SECRET, base_url=allow(server)
        )
        request = ModelRequest(
            model="gpt-4o-mini", instructions="", messages=(Message(role="user", text="hi"),)
        )
        heard = list(provider_for(workspace.pk, "openai").stream(request))

    assert "".join(one.text for one in heard if isinstance(one, TextDelta)) == "Hello you"


def test_the_environments_key_can_be_tested_and_the_demo_always_works(
    workspace, operator, monkeypatch
):
    with OpenAIWire(key=SECRET) as server:
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert check(workspace_id=workspace.pk, provider="openai").ok

    assert check(workspace_id=workspace.pk, provider="demo").ok
    with pytest.raises(ProviderNotConfigured):
        check(workspace_id=workspace.pk, provider="gemini")


def test_statuses_take_one_query(workspace, operator, monkeypatch, django_assert_num_queries):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    save_key(workspace_id=workspace.pk, provider="gemini", api_key=SECRET)
    statuses(workspace.pk)  # whether the workspace is the operator's is cached

    with django_assert_num_queries(1):
        found = statuses(workspace.pk)

    assert {name: status.source for name, status in found.items()} == {
        "gemini": "workspace",
        "openai": "environment",
        "anthropic": "none",
        "demo": "built_in",
    }


def test_the_default_model_follows_the_keys(workspace, operator, monkeypatch):
    assert default_model(workspace.pk).provider == "demo"

    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    assert default_model(workspace.pk).provider == "demo"

    monkeypatch.delenv("OPENAI_BASE_URL")
    save_key(workspace_id=workspace.pk, provider="openai", api_key=SECRET)
    assert default_model(workspace.pk).provider == "openai"

    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")
    assert default_model(workspace.pk).provider == "gemini"


def test_the_default_models_are_known():
    known = {(model.provider, model.name) for model in known_models()}

    assert set(DEFAULT_MODELS.items()) <= known


@pytest.mark.parametrize(
    ("setting", "serves_staff", "serves_tenants"),
    [("staff", True, False), ("all", True, True), ("none", False, False)],
)
def test_the_operators_keys_serve_the_workspaces_that_the_setting_names(
    workspace,
    operator,
    foreign_workspace,
    monkeypatch,
    settings,
    setting,
    serves_staff,
    serves_tenants,
):
    settings.OPERATOR_KEYS = setting
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")

    for asking, served in ((workspace, serves_staff), (foreign_workspace, serves_tenants)):
        status = statuses(asking.pk)["gemini"]
        assert (status.configured, status.is_withheld) == (served, not served)
        if served:
            assert credentials(asking.pk, "gemini").api_key == "from-the-environment"
        else:
            with pytest.raises(ProviderNotConfigured):
                provider_for(asking.pk, "gemini")


def test_the_operators_keys_serve_a_workspace_of_the_command_line(db, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "from-the-environment")
    made = create_workspace(name="Scripts", owner=None)

    assert statuses(made.pk)["gemini"].configured


def test_by_default_the_operators_keys_serve_no_tenant(foreign_workspace, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")

    with pytest.raises(ProviderNotConfigured):
        credentials(foreign_workspace.pk, "openai")


@pytest.mark.parametrize("role", ["viewer", "builder", "admin"])
def test_a_staff_member_who_is_no_owner_does_not_bring_the_operators_keys(
    foreign_workspace, operator, monkeypatch, role
):
    Membership.objects.create(workspace=foreign_workspace, user=operator, role=role)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")

    with pytest.raises(ProviderNotConfigured):
        credentials(foreign_workspace.pk, "openai")


def test_a_tenant_cannot_lower_the_price_of_what_the_operator_pays(
    workspace, operator, foreign_workspace, monkeypatch, settings
):
    settings.OPERATOR_KEYS = "all"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    used, free = Usage(input_tokens=1_000_000), Decimal(0)
    for asking in (workspace, foreign_workspace):
        set_price(asking.pk, provider="openai", model="gpt-4o", input_price=free, output_price=free)

    assert price_call(foreign_workspace.pk, "openai", "gpt-4o", used) > 0
    assert price_call(workspace.pk, "openai", "gpt-4o", used) == 0
    save_key(workspace_id=foreign_workspace.pk, provider="openai", api_key=SECRET)
    assert price_call(foreign_workspace.pk, "openai", "gpt-4o", used) == 0
