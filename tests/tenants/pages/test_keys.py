"""Tests of the API keys page."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from tenants.keys import find_key, issue_key
from tenants.models import ApiKey
from tests.conftest import add_member


def key_form(**changed: str) -> dict[str, str]:
    return {"name": "CI", "scope": "run", "life": "30", "once": str(uuid4()), **changed}


def secret_in(page: str) -> str:
    found = re.search(r'<code id="secret">(sy_[^<]+)</code>', page)
    assert found
    return found[1]


def test_a_new_key_is_shown_once_and_works(browser_client, workspace, owner):
    page = browser_client.post("/settings/keys/new/", key_form()).text
    secret = secret_in(page)
    key = find_key(secret)

    assert key is not None
    assert (key.workspace, key.scope, key.created_by) == (workspace, "run", owner)
    assert f"x-api-key: {secret}" in page
    assert secret not in browser_client.get("/settings/keys/").text


def test_the_page_with_the_secret_is_not_cached(browser_client):
    answer = browser_client.post("/settings/keys/new/", key_form())

    assert "no-store" in answer.headers["Cache-Control"]


def test_a_form_submitted_twice_creates_one_key(browser_client):
    form = key_form()
    browser_client.post("/settings/keys/new/", form)
    again = browser_client.post("/settings/keys/new/", form, follow=True)

    assert ApiKey.objects.count() == 1
    assert "already exists" in again.text


@pytest.mark.parametrize(("life", "days"), [("30", 30), ("365", 365), ("", None)])
def test_a_key_expires_after_the_chosen_time(browser_client, life, days):
    browser_client.post("/settings/keys/new/", key_form(life=life))
    expires = ApiKey.objects.get().expires_at

    if days is None:
        assert expires is None
    else:
        assert expires is not None
        assert abs(expires - timezone.now() - timedelta(days=days)) < timedelta(hours=1)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"scope": "own"}, {"life": "9"}, {"once": "x"}])
def test_an_invalid_form_creates_no_key(browser_client, wrong):
    answer = browser_client.post("/settings/keys/new/", key_form(**wrong))

    assert answer.status_code == 200
    assert not ApiKey.objects.exists()


def test_a_revoked_key_stops_working(browser_client):
    secret = secret_in(browser_client.post("/settings/keys/new/", key_form()).text)
    browser_client.post(f"/settings/keys/{ApiKey.objects.get().pk}/revoke/")

    assert find_key(secret) is None
    assert "Revoked" in browser_client.get("/settings/keys/").text


def test_a_key_cannot_be_revoked_with_get(browser_client, workspace):
    key = issue_key(workspace_id=workspace.pk, name="CI").key

    assert browser_client.get(f"/settings/keys/{key.pk}/revoke/").status_code == 405


@pytest.mark.parametrize("role", ["viewer", "builder"])
def test_members_who_are_not_admins_can_see_keys_but_not_manage_them(workspace, role):
    key = issue_key(workspace_id=workspace.pk, name="Nightly").key
    client = Client()
    client.force_login(add_member(workspace, role))
    assert "Nightly" in client.get("/settings/keys/").text

    assert client.get("/settings/keys/new/").status_code == 403
    assert client.post("/settings/keys/new/", key_form()).status_code == 403
    assert client.post(f"/settings/keys/{key.pk}/revoke/").status_code == 403
    assert ApiKey.objects.valid().count() == 1


def test_a_key_of_another_workspace_is_not_found(browser_client, foreign_workspace):
    key = issue_key(workspace_id=foreign_workspace.pk, name="Theirs").key

    assert browser_client.post(f"/settings/keys/{key.pk}/revoke/").status_code == 404
    assert "Theirs" not in browser_client.get("/settings/keys/").text
    assert ApiKey.objects.valid().count() == 1
