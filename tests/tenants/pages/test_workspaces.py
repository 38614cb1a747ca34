"""Tests of creating, renaming and switching workspaces, and of the account page."""

from __future__ import annotations

import pytest
from django.test import Client

from orchestrator.workspaces import create_workspace
from tenants.models import Membership, User
from tests.conftest import add_member


def test_creating_a_workspace_switches_to_it(browser_client, owner):
    browser_client.post("/workspaces/new/", {"name": "Second"})

    assert "Second · Switchyard" in browser_client.get("/").text
    assert Membership.objects.get(workspace__name="Second").user == owner


def test_a_member_can_switch_between_their_workspaces(browser_client, owner, workspace):
    other = create_workspace(name="Other", owner=owner)
    browser_client.post("/workspaces/switch/", {"workspace": other.pk})
    assert "Other · Switchyard" in browser_client.get("/").text
    browser_client.post("/workspaces/switch/", {"workspace": workspace.pk})
    assert "Yard · Switchyard" in browser_client.get("/").text


@pytest.mark.parametrize("wanted", ["", "nonsense"])
def test_switching_to_an_invalid_workspace_is_not_found(browser_client, wanted):
    assert browser_client.post("/workspaces/switch/", {"workspace": wanted}).status_code == 404


def test_switching_to_a_foreign_workspace_is_not_found(browser_client, foreign_workspace):
    answer = browser_client.post("/workspaces/switch/", {"workspace": foreign_workspace.pk})

    assert answer.status_code == 404
    assert "Yard · Switchyard" in browser_client.get("/").text


def test_a_person_without_a_workspace_is_asked_to_create_one(client, stranger):
    client.force_login(stranger)
    page = client.get("/", follow=True)

    assert page.redirect_chain[-1][0] == "/workspaces/new/"
    assert client.get("/settings/account/").status_code == 200


def test_an_admin_can_rename_the_workspace_and_a_builder_cannot(browser_client, workspace):
    builder = Client()
    builder.force_login(add_member(workspace, "builder"))
    assert builder.post("/settings/workspace/", {"name": "Mine"}).status_code == 403
    browser_client.post("/settings/workspace/", {"name": "Railway"})

    workspace.refresh_from_db()
    assert workspace.name == "Railway"


def test_a_person_can_change_their_name(browser_client, owner):
    browser_client.post("/settings/account/", {"name": "Olga", "email": owner.email})

    owner.refresh_from_db()
    assert owner.name == "Olga"


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ({"current": ""}, "owner@example.com"),
        ({"current": "wrong"}, "owner@example.com"),
        ({"current": "correct horse 9"}, "new@example.com"),
    ],
)
def test_a_new_address_needs_the_password(browser_client, owner, typed, address):
    browser_client.post("/settings/account/", {"name": "O", "email": "New@Example.com", **typed})

    owner.refresh_from_db()
    assert owner.email == address


def test_an_address_of_another_account_is_refused(browser_client, owner, stranger):
    typed = {"name": "O", "email": "STRANGER@example.com", "current": "correct horse 9"}
    browser_client.post("/settings/account/", typed)

    assert User.objects.get(pk=owner.pk).email == "owner@example.com"
