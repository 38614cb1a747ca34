"""Tests that `manage.py check --deploy` warns of every unsafe setting."""

from __future__ import annotations

import pytest
from django.core import checks

from tools_app.exceptions import SandboxUnavailable

SAFE = {
    "DEBUG": False,
    "SECRET_KEY": "a-long-random-key-that-is-not-djangos-own-0123456789abcdef",
    "SALT_KEY": ["a-long-random-salt"],
    "ALLOWED_HOSTS": ["yard.example"],
    "PUBLIC_URL": "https://yard.example",
    "PROXY_COUNT": 1,
    "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"),
    "SECURE_SSL_REDIRECT": True,
    "SECURE_HSTS_SECONDS": 31_536_000,
    "SECURE_HSTS_INCLUDE_SUBDOMAINS": True,
    "SECURE_HSTS_PRELOAD": True,
    "SESSION_COOKIE_SECURE": True,
    "CSRF_COOKIE_SECURE": True,
    "EMBEDDED": False,
    "EMAIL_HOST": "mail.example",
    "EMAIL_USE_TLS": True,
    "EGRESS_ALLOWED_PRIVATE": [],
    "REPO_ROOTS": [],
    "METRICS_TOKEN": "",
    "REQUESTS_PER_MINUTE": 6_000,
    "SIGN_UP": "closed",
    "OPERATOR_KEYS": "staff",
    "SILENCED_SYSTEM_CHECKS": [],
}


@pytest.fixture
def warnings(settings, monkeypatch):
    """Return a function that gives the ids of the messages with these changes of safe settings."""
    monkeypatch.setattr("orchestrator.checks.find_bwrap", lambda: "/usr/bin/bwrap")
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def warnings(**changes: object) -> set[str]:
        for name, value in (SAFE | changes).items():
            setattr(settings, name, value)
        found = checks.run_checks(tags=[checks.Tags.security], include_deployment_checks=True)
        return {message.id for message in found}

    return warnings


def test_safe_settings_give_no_warning(warnings):
    assert warnings() == set()


@pytest.mark.parametrize(
    ("name", "value", "id"),
    [
        ("EGRESS_ALLOWED_PRIVATE", ["models=10.0.0.5:11434"], "switchyard.W001"),
        ("SALT_KEY", ["short"], "switchyard.W002"),
        ("SALT_KEY", [], "switchyard.W002"),
        ("SALT_KEY", [SAFE["SECRET_KEY"]], "switchyard.W002"),
        ("PUBLIC_URL", "http://yard.example", "switchyard.W003"),
        ("PROXY_COUNT", 0, "switchyard.W004"),
        ("EMBEDDED", True, "switchyard.W005"),
        ("REQUESTS_PER_MINUTE", 10_000_000, "switchyard.W006"),
        ("REST_FRAMEWORK", {"DEFAULT_THROTTLE_CLASSES": []}, "switchyard.W006"),
        ("SIGN_UP", "open", "switchyard.W007"),
        ("EMAIL_HOST", "", "switchyard.W009"),
        ("EMAIL_USE_TLS", False, "switchyard.W009"),
        ("REPO_ROOTS", ["/"], "switchyard.W010"),
        ("METRICS_TOKEN", "guess", "switchyard.W011"),
        # Django's own checks.
        ("DEBUG", True, "security.W018"),
        ("SECRET_KEY", "short", "security.W009"),
        ("SECURE_SSL_REDIRECT", False, "security.W008"),
        ("SECURE_HSTS_SECONDS", 0, "security.W004"),
        ("SESSION_COOKIE_SECURE", False, "security.W012"),
        ("CSRF_COOKIE_SECURE", False, "security.W016"),
        ("ALLOWED_HOSTS", [], "security.W020"),
    ],
)
def test_an_unsafe_setting_is_warned_of(warnings, name, value, id):
    assert warnings(**{name: value}) == {id}


def test_operator_keys_that_serve_every_workspace_are_warned_of(warnings, monkeypatch):
    assert warnings(OPERATOR_KEYS="all") == set()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-operator")

    assert warnings(OPERATOR_KEYS="all") == {"switchyard.W008"}
    assert warnings(OPERATOR_KEYS="staff") == set()


def test_sandboxes_that_cannot_enforce_their_limits_are_warned_of(warnings, monkeypatch):
    def missing() -> str:
        raise SandboxUnavailable("bubblewrap is not installed.")

    monkeypatch.setattr("orchestrator.checks.find_bwrap", missing)

    assert warnings() == {"switchyard.W012"}


@pytest.mark.parametrize(
    "entry", ["webfetch=10.0.0.5:80", "10.0.0.5", "models=10.0.0.5", "http://10.0.0.5:80", "="]
)
def test_an_entry_that_would_open_nothing_is_an_error_without_deploy_too(settings, entry):
    settings.EGRESS_ALLOWED_PRIVATE = [entry]
    found = checks.run_checks(tags=[checks.Tags.security])

    assert [message.id for message in found] == ["switchyard.E001"]
    assert found[0].is_serious()


@pytest.mark.parametrize(
    "entry", ["localhost:80", "models=10.0.0.5:1", "mcp=tools.lan:8080", "web=[::1]:80", "::1:80"]
)
def test_a_valid_entry_is_no_error(settings, entry):
    settings.EGRESS_ALLOWED_PRIVATE = [entry]

    assert checks.run_checks(tags=[checks.Tags.security]) == []
