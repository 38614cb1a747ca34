"""Tests of the provider registry: requirements, caching and connection tests."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest

from agents.exceptions import (
    ProviderNotConfigured,
    ProviderRejected,
    ProviderUnauthorized,
    ProviderUnavailable,
)
from agents.providers.base import Provider
from agents.providers.demo import DemoProvider
from agents.providers.http import CONCURRENT_STREAMS, shared_client
from agents.providers.registry import (
    PROVIDERS,
    build_provider,
    check_connection,
    credentials_from_environment,
)
from core.exceptions import Invalid
from tests.agents.providers.talk import complete
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.wire.openai import OpenAIWire


def client_of(provider: Provider) -> object:
    """Return the adapter that a built provider reads from."""
    return vars(provider)["_provider"]


both = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)


def test_an_unknown_name_is_refused():
    with pytest.raises(Invalid, match="Known: gemini, openai, anthropic, demo"):
        build_provider("oracle")


@pytest.mark.parametrize("name", ["gemini", "openai", "anthropic"])
@pytest.mark.parametrize("key", [None, ""])
def test_a_vendor_without_a_key_is_not_configured(name: str, key: str | None):
    with pytest.raises(ProviderNotConfigured, match="No key is set"):
        build_provider(name, api_key=key)


@pytest.mark.parametrize("address", ["ftp://example.com", "example.com", "http://", "http://[bad"])
def test_an_invalid_address_is_refused(address: str):
    with pytest.raises(Invalid, match="http"):
        build_provider("openai", api_key="k", base_url=address)


def test_the_demo_provider_needs_no_key():
    assert isinstance(build_provider("demo"), DemoProvider)
    assert not PROVIDERS["demo"].needs_key


@both
def test_the_same_key_and_address_share_a_client_and_others_do_not(vendor: Vendor):
    def client(key: str, port: int) -> object:
        return client_of(build_provider(vendor.name, api_key=key, base_url=f"http://[::1]:{port}"))

    one = client("a", 1)

    assert client("a", 1) is one
    assert client("b", 1) is not one
    assert client("a", 2) is not one


@both
def test_a_given_http_client_is_used(vendor: Vendor):
    seen: list[str] = []
    guard = httpx2.Client(event_hooks={"request": [lambda sent: seen.append(sent.url.host)]})
    with vendor.wire() as wire, guard:
        provider = build_provider(
            vendor.name, api_key=wire.key, base_url=wire.url, http_client=guard
        )
        complete(provider, vendor.request("hi"))
        check_connection(vendor.name, wire.key, wire.url, vendor.model, http_client=guard)

    assert seen == ["127.0.0.1", "127.0.0.1"]


def test_the_pool_is_large_enough_for_a_whole_worker():
    assert CONCURRENT_STREAMS >= 1_000
    assert shared_client() is shared_client()
    assert not shared_client().follow_redirects


FORK = """
import os, sys
from agents.providers.http import shared_client
from agents.providers.registry import build_provider

def client():
    return vars(build_provider("openai", api_key="k"))["_provider"]

pool, kept = shared_client(), client()
assert client() is kept
if not (child := os.fork()):
    os._exit(shared_client() is pool or client() is kept)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_gets_its_own_connections():
    assert run_python(FORK) == 0


LOADED = "sys.exit(any(name in sys.modules for name in {names}))"


@pytest.mark.parametrize(
    ("modules", "names"),
    [
        ("agents.providers.registry", ("anthropic", "openai", "google.genai", "httpx2")),
        ("django; django.setup(); import agents.model_catalog", ("google.genai", "genai_prices")),
    ],
)
def test_the_sdks_are_not_imported_before_they_are_needed(modules, names):
    assert run_python(f"import sys; import {modules}; {LOADED.format(names=names)}") == 0


def run_python(program: str) -> int:
    """Run a separate process, with one thread and nothing imported."""
    return subprocess.run([sys.executable, "-c", program], check=False).returncode


@both
def test_a_good_connection_passes_the_check(vendor: Vendor):
    with vendor.wire() as wire:
        check_connection(vendor.name, wire.key, wire.url, vendor.model)
        check_connection(vendor.name, wire.key, wire.url)

    assert all(received.method == "GET" for received in wire.requests)


@both
def test_the_check_tells_a_bad_key_from_a_bad_model_and_a_bad_address(vendor: Vendor):
    with vendor.wire() as wire:
        with pytest.raises(ProviderUnauthorized):
            check_connection(vendor.name, "another-key-123", wire.url, vendor.model)
        with pytest.raises(ProviderRejected) as caught:
            check_connection(vendor.name, wire.key, wire.url, "no-such-model")
        assert not isinstance(caught.value, ProviderUnauthorized)
        address = wire.url
    with pytest.raises(ProviderUnavailable):
        check_connection(vendor.name, "any-key-will-do", address, vendor.model)


def test_a_server_that_lists_no_models_is_asked_for_one_token():
    with OpenAIWire(models=None) as wire:
        check_connection("openai", wire.key, wire.url, "local-model")

    assert [received.method for received in wire.requests] == ["GET", "POST"]
    assert wire.requests[-1].body["max_tokens"] == 1


def test_the_check_requires_the_same_settings_as_a_run():
    check_connection("demo")
    with pytest.raises(ProviderNotConfigured):
        check_connection("gemini")
    with pytest.raises(Invalid):
        check_connection("oracle")


def test_a_web_page_fails_the_check(httpserver):
    httpserver.expect_request("/models").respond_with_data(
        "<html>hi</html>", content_type="text/html"
    )

    with pytest.raises(ProviderRejected, match="Check its address"):
        check_connection("openai", "some-key-12345", httpserver.url_for(""), "m")


def test_the_operator_can_set_keys_in_the_environment(monkeypatch):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert credentials_from_environment("gemini") == (None, None)

    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert credentials_from_environment("gemini") == ("second", None)
    assert credentials_from_environment("openai") == (None, "http://127.0.0.1:11434/v1")

    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert credentials_from_environment("gemini") == ("first", None)
    assert credentials_from_environment("demo") == (None, None)


def test_the_operators_address_never_receives_a_workspaces_key(monkeypatch):
    with OpenAIWire() as operators, OpenAIWire() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", operators.url)
        provider = build_provider("openai", api_key="workspace-key-1", base_url=other.url)
        with pytest.raises(ProviderUnauthorized):
            complete(provider, VENDORS[1].request("hi"))
        keyed = build_provider("openai", api_key="workspace-key-1")

    assert operators.requests == []
    assert "api.openai.com" in str(vars(client_of(keyed))["_client"].base_url)
