"""Tests of keys over REST: shown once, listed without secrets, revoked at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.keys import issue_key
from tenants.models import ApiKey, Membership, User
from tests.conftest import add_member, key_client

KEYS = "/api/v1/keys/"


def test_a_new_key_is_shown_once_and_works(api, workspace, owner):
    issued = api.post(KEYS, {"name": "CI", "scope": "run"}, format="json").json()

    assert issued["key"].startswith("sy_")
    assert issued["created_by"] == str(owner.pk)
    assert issued["created_at"]
    program = APIClient(headers={"x-api-key": issued["key"]})
    assert program.get("/api/v1/me/").json()["key"]["id"] == issued["id"]
    for path in (KEYS, f"{KEYS}{issued['id']}/"):
        text = api.get(path).content.decode()
        assert issued["key"] not in text
        assert "digest" not in text


def test_a_revoked_key_stops_working_and_stays_in_the_list(api):
    issued = api.post(KEYS, {"name": "CI"}, format="json").json()
    program = APIClient(headers={"x-api-key": issued["key"]})
    assert program.get("/api/v1/me/").status_code == 200

    assert api.delete(f"{KEYS}{issued['id']}/").status_code == 204
    assert api.delete(f"{KEYS}{issued['id']}/").status_code == 204
    assert program.get("/api/v1/me/").status_code == 401
    assert api.get(f"{KEYS}{issued['id']}/").json()["revoked_at"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "scope": "own"},
        {"name": "x" * 81},
        {"name": "x", "expires_at": "yesterday"},
        {"name": "x", "expires_at": (timezone.now() - timedelta(days=1)).isoformat()},
    ],
)
def test_invalid_input_creates_no_key(api, body):
    before = ApiKey.objects.count()

    assert api.post(KEYS, body, format="json").status_code == 400
    assert ApiKey.objects.count() == before


@pytest.mark.parametrize("scope", ["read", "run"])
def test_a_key_without_admin_scope_cannot_list_or_create_keys(workspace, scope):
    program = key_client(workspace, scope)

    assert program.get(KEYS).status_code == 403
    assert program.post(KEYS, {"name": "x"}, format="json").status_code == 403


def test_an_admin_can_issue_a_key_with_admin_scope(client, workspace):
    client.force_login(add_member(workspace, Membership.Role.ADMIN))
    answer = client.post(KEYS, {"name": "x", "scope": "admin"}, content_type="application/json")

    assert answer.status_code == 201


def test_keys_of_another_workspace_are_not_found(api, foreign_workspace):
    foreign = issue_key(workspace_id=foreign_workspace.pk, name="theirs").key

    assert str(foreign.pk) not in api.get(KEYS).content.decode()
    assert api.get(f"{KEYS}{foreign.pk}/").status_code == 404
    assert api.delete(f"{KEYS}{foreign.pk}/").status_code == 404
    foreign.refresh_from_db()
    assert foreign.revoked_at is None


def test_a_key_issued_on_the_command_line_acts_for_the_workspace_owner(db, capsys):
    owner = User.objects.create_superuser("olive@example.com")
    call_command("issue_key", "--workspace", "Program", "--create", "--scope", "admin")
    program = APIClient(headers={"x-api-key": capsys.readouterr().out.strip()})

    assert program.get("/api/v1/me/").json()["user"]["email"] == owner.email
    made = program.post("/api/v1/agents/", {"name": "Mine"}, format="json").json()
    assert made["created_by"] == str(owner.pk)
