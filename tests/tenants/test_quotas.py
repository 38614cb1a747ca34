"""Tests of what one person and one workspace may have, and of the errors beyond it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal

import pytest
from django.core import mail
from django.db import connections
from django.test import Client

from core.ids import new_token
from orchestrator.models import WorkflowTrigger
from orchestrator.workspaces import create_workspace
from sessions_app.models import Schedule
from tenants.billing.credits import get_balance
from tenants.exceptions import QuotaReached
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey, Invitation, Membership, Webhook, Workspace
from tests.conftest import key_client
from tests.factories import make

INVITATIONS = "/api/v1/invitations/"


def invite(api, email: str):
    return api.post(INVITATIONS, {"email": email, "role": "viewer"}, format="json")


@pytest.mark.parametrize(
    ("setting", "model", "path", "body"),
    [
        ("KEYS_PER_WORKSPACE", ApiKey, "/api/v1/keys/", {"name": "one more"}),
        (
            "WEBHOOKS_PER_WORKSPACE",
            Webhook,
            "/api/v1/webhooks/",
            {"url": "https://example.com/", "events": ["*"]},
        ),
        (
            "TRIGGERS_PER_WORKSPACE",
            WorkflowTrigger,
            "/api/v1/triggers/",
            {
                "name": "T",
                "kind": "webhook",
                "workflow": "execute-task",
                "params": {"command": "ls"},
            },
        ),
        (
            "SCHEDULES_PER_WORKSPACE",
            Schedule,
            "/api/v1/schedules/",
            {"name": "S", "kind": "interval", "interval_seconds": 600, "message": "Look."},
        ),
        ("INVITATIONS_PER_WORKSPACE", Invitation, INVITATIONS, {"email": "new@example.com"}),
    ],
    ids=["keys", "webhooks", "triggers", "schedules", "invitations"],
)
def test_a_workspace_has_at_most_so_many(api, workspace, settings, setting, model, path, body):
    if model is Schedule:
        agents = api.get("/api/v1/agents/").json()["results"]
        body = {**body, "agent": agents[0]["id"]}
    assert api.post(path, body, format="json").status_code == 201
    held = model.objects.for_workspace(workspace.pk).count()
    setattr(settings, setting, held)
    if model is Invitation:
        body = {"email": "newer@example.com"}

    refused = api.post(path, body, format="json")

    assert (refused.status_code, refused.json()["code"]) == (409, "quota_reached")
    assert f"at most {held}" in refused.json()["detail"]
    assert model.objects.for_workspace(workspace.pk).count() == held


def test_a_quota_counts_one_workspace_alone(workspace, foreign_workspace, settings):
    settings.WEBHOOKS_PER_WORKSPACE = 1
    make(Webhook, foreign_workspace)
    body = {"url": "https://example.com/", "events": ["*"]}

    assert key_client(workspace).post("/api/v1/webhooks/", body, format="json").status_code == 201


def test_a_revoked_key_makes_room_for_another(workspace, settings):
    settings.KEYS_PER_WORKSPACE = 1
    first = issue_key(workspace_id=workspace.pk, name="first")
    with pytest.raises(QuotaReached, match="Revoke one first"):
        issue_key(workspace_id=workspace.pk, name="second")
    revoke_key(workspace_id=workspace.pk, key_id=first.key.pk)

    issue_key(workspace_id=workspace.pk, name="second")


@pytest.mark.django_db(transaction=True)
def test_a_quota_holds_for_simultaneous_requests(workspace, settings, monkeypatch):
    settings.KEYS_PER_WORKSPACE = 1
    counted = threading.Barrier(4)

    def wait_for_the_others() -> str:
        """Let every thread count before one of them writes, unless the lock prevents it."""
        with suppress(threading.BrokenBarrierError):
            counted.wait(0.5)
        return new_token()

    monkeypatch.setattr("tenants.keys.new_token", wait_for_the_others)

    def is_issued(_: int) -> bool:
        try:
            issue_key(workspace_id=workspace.pk, name="one")
        except QuotaReached:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert sum(pool.map(is_issued, range(4))) == 1


# ── Workspaces of a person ───────────────────────────────────────────────────


def test_a_person_creates_only_so_many_workspaces(browser_client, owner, workspace, settings):
    settings.WORKSPACES_PER_PERSON = 2
    assert browser_client.post("/workspaces/new/", {"name": "Second"}).status_code == 302

    refused = browser_client.post("/workspaces/new/", {"name": "Third"})

    assert "at most 2 workspaces" in refused.text
    assert Workspace.objects.filter(created_by=owner).count() == 2


def test_a_workspace_that_was_left_still_counts(owner, workspace, stranger, settings):
    settings.WORKSPACES_PER_PERSON = 1
    Membership.objects.create(workspace=workspace, user=stranger, role="owner")
    Membership.objects.filter(workspace=workspace, user=owner).delete()

    with pytest.raises(QuotaReached):
        create_workspace(name="Another", owner=owner)


def test_staff_create_any_number_of_workspaces_with_credits(operator, workspace, settings):
    settings.WORKSPACES_PER_PERSON = 1

    second = create_workspace(name="Second", owner=operator)

    assert get_balance(second.pk).balance == settings.STARTING_CREDITS


def test_only_the_first_workspaces_of_a_person_start_with_credits(owner, workspace, settings):
    second = create_workspace(name="Second", owner=owner)
    settings.STARTING_CREDITS_WORKSPACES = 3
    third = create_workspace(name="Third", owner=owner)

    assert get_balance(workspace.pk).balance == Decimal(10)
    assert get_balance(second.pk).balance == 0
    assert get_balance(third.pk).balance == Decimal(10)


# ── Invitations ──────────────────────────────────────────────────────────────


def test_invitations_are_limited_per_hour(api, settings):
    settings.INVITATIONS_PER_HOUR = 2
    for number in range(2):
        assert invite(api, f"{number}@example.com").status_code == 201

    refused = invite(api, "third@example.com")

    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_invitations")
    assert int(refused["Retry-After"]) > 0
    assert len(mail.outbox) == 2
    assert Invitation.objects.count() == 2


def test_withdrawn_and_repeated_invitations_count(api, settings):
    settings.INVITATIONS_PER_HOUR = 2
    first = invite(api, "one@example.com").json()
    api.delete(f"{INVITATIONS}{first['id']}/")
    assert invite(api, "one@example.com").status_code == 201

    assert invite(api, "one@example.com").status_code == 429
    assert len(mail.outbox) == 2


def test_a_second_workspace_does_not_allow_a_person_more_invitations(owner, workspace, settings):
    settings.INVITATIONS_PER_HOUR = 1
    second = create_workspace(name="Second", owner=owner)
    assert invite(key_client(workspace), "one@example.com").status_code == 201

    assert invite(key_client(second), "two@example.com").status_code == 429


def test_another_workspace_is_not_affected(workspace, foreign_workspace, settings):
    settings.INVITATIONS_PER_HOUR = 1
    assert invite(key_client(workspace), "one@example.com").status_code == 201

    assert invite(key_client(foreign_workspace), "two@example.com").status_code == 201


def test_invitations_do_not_use_up_the_mails_of_agents(api, workspace, settings):
    settings.EMAILS_PER_HOUR = 0
    settings.INVITATIONS_PER_HOUR = 1

    assert invite(api, "one@example.com").status_code == 201


def test_the_page_of_webhooks_shows_the_quota(browser_client: Client, workspace, settings):
    settings.WEBHOOKS_PER_WORKSPACE = 0
    form = {"url": "https://example.com/", "everything": "on"}

    assert "at most 0 webhooks" in browser_client.post("/settings/webhooks/new/", form).text
