"""Tests of request authentication: keys by either header, people by browser session."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from core.throttling import buckets
from orchestrator.workspaces import create_workspace
from tenants.authentication import BAD_KEY, CHOSEN
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey, Membership
from tests.conftest import add_member

ME = "/api/v1/me/"


@pytest.fixture
def issued(workspace, owner):
    return issue_key(workspace_id=workspace.pk, name="program", created_by=owner)


@pytest.mark.parametrize(
    "header", [{"x-api-key": "{}"}, {"Authorization": "Bearer {}"}, {"Authorization": "bearer {}"}]
)
def test_a_key_works_by_either_header(client, issued, workspace, header):
    headers = {name: value.format(issued.secret) for name, value in header.items()}
    answer = client.get(ME, headers=headers)

    assert answer.status_code == 200
    assert answer.json()["workspace"]["id"] == str(workspace.pk)
    assert answer.json()["key"]["prefix"] == issued.key.prefix
    assert answer.json()["role"] == "key:run"


def test_an_empty_key_header_is_ignored_when_there_is_a_bearer_token(client, issued):
    headers = {"x-api-key": "", "Authorization": f"Bearer {issued.secret}"}

    assert client.get(ME, headers=headers).status_code == 200


def expire(issued):
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    return issued.secret


def revoke(issued):
    revoke_key(workspace_id=issued.key.workspace_id, key_id=issued.key.pk)
    return issued.secret


@pytest.mark.parametrize(
    "spoil",
    [expire, revoke, lambda issued: issued.secret + "x", lambda issued: "nonsense", lambda _: ""],
)
def test_a_bad_key_is_refused_even_with_a_valid_cookie(browser_client, issued, spoil):
    assert browser_client.get(ME).status_code == 200

    answer = browser_client.get(ME, headers={"x-api-key": spoil(issued)})

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer.json()["detail"] == BAD_KEY


def test_another_authorization_scheme_is_refused(client):
    answer = client.get(ME, headers={"Authorization": "Basic YTpi"})

    assert answer.status_code == 401


def test_a_key_is_looked_up_with_one_query(issued, django_assert_num_queries):
    program = APIClient(headers={"x-api-key": issued.secret})
    program.get(ME)

    with django_assert_num_queries(2) as queries:  # the key; the workspace that the view shows
        program.get(ME)

    assert "tenants_apikey" in queries[0]["sql"]


def test_the_last_use_is_written_at_most_once_a_minute(client, issued):
    client.get(ME, headers={"x-api-key": issued.secret})
    first = ApiKey.objects.get().last_used_at
    client.get(ME, headers={"x-api-key": issued.secret})

    assert first is not None
    assert ApiKey.objects.get().last_used_at == first

    ApiKey.objects.update(last_used_at=first - timedelta(minutes=2))
    client.get(ME, headers={"x-api-key": issued.secret})
    assert ApiKey.objects.filter(last_used_at__gte=first).exists()


def test_a_browser_session_authenticates_its_user(browser_client, owner, workspace):
    answer = browser_client.get(ME)

    assert answer.json()["user"]["email"] == owner.email
    assert answer.json()["workspace"]["id"] == str(workspace.pk)
    assert answer.json()["key"] is None


def test_a_person_acts_in_the_workspace_they_chose(browser_client, owner, workspace):
    other = create_workspace(name="Other", owner=owner)
    session = browser_client.session
    session[CHOSEN] = str(other.pk)
    session.save()

    assert browser_client.get(ME).json()["workspace"]["id"] == str(other.pk)


@pytest.mark.parametrize("chosen", ["foreign", "not-a-uuid"])
def test_choosing_a_foreign_workspace_has_no_effect(
    browser_client, workspace, foreign_workspace, chosen
):
    session = browser_client.session
    session[CHOSEN] = str(foreign_workspace.pk) if chosen == "foreign" else chosen
    session.save()

    assert browser_client.get(ME).json()["workspace"]["id"] == str(workspace.pk)


def test_a_deactivated_user_is_not_authenticated(browser_client, owner):
    owner.is_active = False
    owner.save()

    assert browser_client.get(ME).status_code == 401


def test_a_person_without_a_workspace_gets_an_explanation(client, stranger):
    client.force_login(stranger)
    answer = client.get(ME)

    assert answer.status_code == 403
    assert "workspace" in answer.json()["detail"]


def test_a_browser_needs_the_csrf_token_to_change_anything(owner, workspace):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)

    refused = strict.post("/api/v1/keys/", {"name": "x"}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    assert not ApiKey.objects.exists()

    strict.cookies["csrftoken"] = "a" * 32
    allowed = strict.post(
        "/api/v1/keys/",
        {"name": "x"},
        content_type="application/json",
        headers={"X-CSRFToken": "a" * 32},
    )
    assert allowed.status_code == 201


def test_a_key_needs_no_csrf_token(issued, workspace, owner):
    strict = Client(enforce_csrf_checks=True)
    admin = issue_key(workspace_id=workspace.pk, name="a", scope="admin", created_by=owner)
    answer = strict.post(
        "/api/v1/keys/",
        {"name": "x"},
        content_type="application/json",
        headers={"x-api-key": admin.secret},
    )

    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("role", "method", "status"),
    [
        (Membership.Role.VIEWER, "get", 200),
        (Membership.Role.VIEWER, "patch", 403),
        (Membership.Role.BUILDER, "patch", 403),
        (Membership.Role.ADMIN, "patch", 200),
    ],
)
def test_a_role_decides_what_a_person_may_do(client, workspace, role, method, status):
    client.force_login(add_member(workspace, role))
    answer = getattr(client, method)(
        "/api/v1/workspace/", {"name": "New"}, content_type="application/json"
    )

    assert answer.status_code == status


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("run", 403), ("admin", 200)])
def test_a_scope_decides_what_a_key_may_do(client, workspace, owner, scope, status):
    issued = issue_key(workspace_id=workspace.pk, name="k", scope=scope, created_by=owner)
    answer = client.patch(
        "/api/v1/workspace/",
        {"name": "New"},
        content_type="application/json",
        headers={"x-api-key": issued.secret},
    )

    assert answer.status_code == status
    if status == 403:
        assert answer.json()["detail"].endswith("Use a key with the scope admin.")


def test_the_error_for_an_owner_only_action_names_the_owner(client, workspace, owner):
    issued = issue_key(workspace_id=workspace.pk, name="k", scope="admin", created_by=owner)
    answer = client.post(
        "/api/v1/credits/",
        {"amount": "5"},
        content_type="application/json",
        headers={"x-api-key": issued.secret},
    )

    assert answer.status_code == 403
    assert answer.json()["detail"].endswith("Only a signed-in owner has it.")


def test_guessing_keys_is_throttled(client, db, settings):
    settings.REQUESTS_PER_MINUTE = 10
    buckets.empty()
    seen = {client.get(ME, headers={"x-api-key": f"sy_guess{n}"}).status_code for n in range(60)}

    assert seen == {401, 429}
    buckets.empty()
