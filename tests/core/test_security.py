"""Tests of security headers, cookies and settings."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client

from core.env import ROOT

PRODUCTION = {
    "DJANGO_SETTINGS_MODULE": "config.settings.production",
    "SECRET_KEY": secrets.token_urlsafe(60),
    "SALT_KEYS": secrets.token_urlsafe(30),
    "ALLOWED_HOSTS": "yard.example",
    "PUBLIC_URL": "https://yard.example",
    "PROXY_COUNT": "1",
    "DATABASE_URL": "postgresql://yard@db.example/yard",
    "EMAIL_HOST": "mail.example",
    "PATH": os.environ["PATH"],
}


def run(*words: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run Python with the production settings and these changes to a valid environment."""
    env = {name: value for name, value in (PRODUCTION | changes).items() if value is not None}
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_deployment_check_is_clean(tmp_path):
    done = run("manage.py", "check", "--deploy", "--fail-level", "WARNING", DATA_DIR=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", None),
        ("SECRET_KEY", "short"),
        ("SALT_KEYS", None),
        ("ALLOWED_HOSTS", None),
        ("ALLOWED_HOSTS", "*"),
        ("ALLOWED_HOSTS", "yard.example,*"),
    ],
)
def test_production_refuses_to_start_with_insecure_settings(tmp_path, name, value):
    done = run("manage.py", "check", DATA_DIR=str(tmp_path), **{name: value})

    assert done.returncode != 0
    assert f"Set {name}" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({"PUBLIC_URL": None}, "https://yard.example"),
        (
            {"PUBLIC_URL": None, "ALLOWED_HOSTS": ".yard.example,other.example"},
            "https://yard.example",
        ),
        ({"PUBLIC_URL": "https://yard.example:8443"}, "https://yard.example:8443"),
        (
            {
                "DJANGO_SETTINGS_MODULE": "config.settings.local",
                "PUBLIC_URL": None,
                "HOST": "0.0.0.0",  # noqa: S104
                "PORT": "9000",
            },
            "http://yard.example:9000",
        ),
        (
            {
                "DJANGO_SETTINGS_MODULE": "config.settings.local",
                "PUBLIC_URL": None,
                "ALLOWED_HOSTS": None,
            },
            "http://127.0.0.1:8000",
        ),
    ],
)
def test_links_in_mails_lead_to_the_host_of_the_settings(tmp_path, changes, address):
    script = "import django; django.setup(); from django.conf import settings; print(settings.PUBLIC_URL)"
    done = run("-c", script, DATA_DIR=str(tmp_path), **changes)

    assert done.stdout.strip() == address, done.stderr


@pytest.mark.parametrize("name", ["SIGN_UP", "OPERATOR_KEYS"])
def test_an_unknown_choice_is_refused(tmp_path, name):
    done = run("manage.py", "check", DATA_DIR=str(tmp_path), **{name: "maybe"})

    assert done.returncode != 0
    assert f"{name} must be one of" in done.stdout + done.stderr


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/api/v1/me/", "/api/docs/", "/admin/login/"])
def test_every_response_has_the_security_headers(client, path):
    answer = client.get(path)

    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/", "/approvals/", "/memory/", "/settings/members/", "/nothing/", "/api/v1/me/"]
)
def test_no_cache_may_keep_a_page_or_an_answer(browser_client, path):
    policy = browser_client.get(path)["Cache-Control"]

    assert {"private", "no-store"} <= set(policy.split(", "))


@pytest.mark.django_db
def test_a_static_file_may_be_kept(settings):
    settings.WHITENOISE_USE_FINDERS = True
    answer = Client().get("/static/favicon.svg")
    answer.close()

    assert answer.status_code == 200
    assert "no-store" not in answer["Cache-Control"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/admin/login/", "/nothing/"])
def test_the_content_security_policy_of_pages_is_strict(client, path):
    policy = policy_of(client.get(path))

    assert policy["default-src"] == "'self'"
    assert policy["object-src"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert policy["img-src"] == "'self' data:", "no image of an answer is fetched from elsewhere"
    assert policy["connect-src"] == "'self'"
    for name in ("script-src", "style-src", "default-src"):
        assert "unsafe" not in policy[name]
        assert "*" not in policy[name]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/me/", "/api/v1/health/"])
def test_the_content_security_policy_of_data_allows_nothing(client, path):
    policy = policy_of(client.get(path))

    assert set(policy) == {"default-src", "base-uri", "form-action", "frame-ancestors"}
    assert set(policy.values()) == {"'none'"}


def policy_of(answer: HttpResponse) -> dict[str, str]:
    parts = answer["Content-Security-Policy"].split(";")
    return dict(part.strip().partition(" ")[::2] for part in parts)


def test_no_path_is_exempt_from_the_policy():
    assert not settings.CONTENT_SECURITY_POLICY["EXCLUDE_URL_PREFIXES"]


@pytest.mark.django_db
def test_the_session_cookie_is_hidden_from_scripts_and_other_sites(owner, workspace):
    client = Client()
    client.post("/sign-in/", {"email": owner.email, "password": "correct horse 9"})
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]

    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


@pytest.mark.django_db
def test_a_form_without_its_token_is_refused_with_a_page(owner):
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/sign-in/", {"email": owner.email, "password": "x"})

    assert answer.status_code == 403
    assert "Reload the page" in answer.content.decode()


@pytest.mark.parametrize(
    ("host", "insecure", "secure"),
    [("127.0.0.1", None, "False"), ("192.0.2.1", None, "True"), ("192.0.2.1", "1", "False")],
)
def test_cookies_are_secure_beyond_localhost(tmp_path, host, insecure, secure):
    code = "from django.conf import settings as s; print(s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE)"
    done = run(
        "-c",
        code,
        DJANGO_SETTINGS_MODULE="config.settings.local",
        DATA_DIR=str(tmp_path),
        HOST=host,
        INSECURE_HTTP=insecure,
        ALLOWED_HOSTS="localhost",
    )

    assert done.stdout.split() == [secure, secure], done.stderr


def test_passwords_are_hashed_with_argon2():
    from config.settings import base

    assert "Argon2" in base.PASSWORD_HASHERS[0]
