"""Tests of the members page and of the invitation page."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client

from tenants.models import Invitation, Membership, User, Workspace
from tests.conftest import add_member

NEWCOMER = {"name": "Nia New", "email": "nia@example.com", "password": "correct horse 9"}


def invite_and_get_link(
    client: Client, email: str = "nia@example.com", role: str = "builder"
) -> str:
    answer = client.post("/settings/members/invite/", {"email": email, "role": role})
    found = re.search(r"http://testserver(/invitations/[^<]+)", answer.text)
    assert found
    return found[1]


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_an_invitation_shows_its_link_once_and_mails_it(browser_client):
    link = invite_and_get_link(browser_client)

    assert link in str(mail.outbox[-1].body)
    page = browser_client.get("/settings/members/").text
    assert "nia@example.com" in page
    assert link not in page


def test_viewing_an_invitation_does_not_consume_it(browser_client, workspace):
    link = invite_and_get_link(browser_client)

    assert Client().get(link).status_code == 200
    assert Client().get(link).status_code == 200
    assert Membership.objects.for_workspace(workspace.pk).count() == 1


def test_a_newcomer_joins_with_a_new_account_and_gets_no_second_workspace(
    browser_client, workspace
):
    newcomer = Client()
    newcomer.post(invite_and_get_link(browser_client, role="viewer"), NEWCOMER)

    joined = Membership.objects.get(user__email="nia@example.com")
    assert (joined.workspace, joined.role) == (workspace, "viewer")
    assert newcomer.get("/").status_code == 200


def test_an_existing_user_joins_and_enters_the_new_workspace(
    browser_client, workspace, stranger, foreign_workspace
):
    client = client_of(stranger)
    client.post(invite_and_get_link(browser_client))

    assert workspace.name in client.get("/").text
    assert Membership.objects.filter(user=stranger).count() == 2


def test_an_invitation_works_once(browser_client, stranger):
    link = invite_and_get_link(browser_client)
    Client().post(link, NEWCOMER)

    assert client_of(stranger).post(link).status_code == 410


def test_a_withdrawn_invitation_stops_working(browser_client):
    link = invite_and_get_link(browser_client)
    invitation = Invitation.objects.get()
    browser_client.post(f"/settings/invitations/{invitation.pk}/withdraw/")

    assert Client().get(link).status_code == 410
    assert Client().post(link, NEWCOMER).status_code == 410
    assert not User.objects.filter(email="nia@example.com").exists()


def test_a_failed_sign_up_keeps_the_invitation_open(browser_client, owner):
    link = invite_and_get_link(browser_client)
    refused = Client().post(link, {**NEWCOMER, "email": owner.email})

    assert "An account with this e-mail address already exists" in refused.text
    assert Client().post(link, NEWCOMER).status_code == 302


@pytest.mark.parametrize("role", ["viewer", "builder"])
def test_members_who_are_not_admins_can_see_members_but_not_manage_them(workspace, owner, role):
    member = add_member(workspace, role)
    client = client_of(member)
    page = client.get("/settings/members/").text
    assert owner.email in page
    assert "Invite somebody" not in page

    invited = client.post("/settings/members/invite/", {"email": "x@example.com", "role": "viewer"})
    owners = Membership.objects.get(user=owner)
    removed = client.post(f"/settings/members/{owners.pk}/remove/")
    promoted = client.post(
        f"/settings/members/{Membership.objects.get(user=member).pk}/role/", {"role": "admin"}
    )
    assert {invited.status_code, removed.status_code, promoted.status_code} == {403}
    assert Membership.objects.get(user=member).role == role


def test_an_admin_cannot_make_owners(workspace, owner):
    client = client_of(add_member(workspace, "admin"))
    page = client.get("/settings/members/").text
    assert 'value="owner"' not in page
    client.post("/settings/members/invite/", {"email": "x@example.com", "role": "owner"})

    assert not Invitation.objects.exists()


def test_a_role_can_be_changed_from_the_list(browser_client, workspace):
    member = Membership.objects.get(user=add_member(workspace, "viewer"))
    browser_client.post(f"/settings/members/{member.pk}/role/", {"role": "admin"})

    member.refresh_from_db()
    assert member.role == "admin"


def test_the_last_owner_can_neither_leave_nor_step_down(browser_client, workspace, owner):
    mine = Membership.objects.get(user=owner)
    left = browser_client.post(f"/settings/members/{mine.pk}/remove/", follow=True)
    browser_client.post(f"/settings/members/{mine.pk}/role/", {"role": "viewer"})

    assert "Make another member an owner first" in left.text
    mine.refresh_from_db()
    assert mine.role == "owner"


def test_a_member_who_leaves_their_only_workspace_is_asked_to_create_one(workspace):
    member = add_member(workspace, "builder")
    client = client_of(member)
    answer = client.post(
        f"/settings/members/{Membership.objects.get(user=member).pk}/remove/", follow=True
    )

    assert answer.redirect_chain[-1][0] == "/workspaces/new/"
    assert "You left the workspace" in answer.text


def test_a_removed_member_loses_access_at_once(browser_client, workspace):
    member = add_member(workspace, "builder")
    client = client_of(member)
    assert client.get("/settings/members/").status_code == 200
    browser_client.post(f"/settings/members/{Membership.objects.get(user=member).pk}/remove/")

    assert client.get("/settings/members/").status_code == 403


def test_members_of_another_workspace_are_not_found(
    browser_client, foreign_workspace: Workspace, stranger
):
    theirs = Membership.objects.get(user=stranger)

    for act, form in [("remove", {}), ("role", {"role": "viewer"})]:
        answer = browser_client.post(f"/settings/members/{theirs.pk}/{act}/", form)
        assert answer.status_code == 404
    theirs.refresh_from_db()
    assert theirs.role == "owner"


def test_an_invitation_leads_to_this_site_whatever_host_is_asked_for(browser_client, settings):
    settings.PUBLIC_URL = "https://yard.example/"
    form = {"email": "nia@example.com", "role": "viewer"}
    page = browser_client.post("/settings/members/invite/", form, HTTP_HOST="testserver:6666")

    assert "https://yard.example/invitations/" in page.text
    assert "https://yard.example/invitations/" in str(mail.outbox[-1].body)
    assert "6666" not in str(mail.outbox[-1].body)


def test_strangers_cannot_be_flooded_with_invitations(browser_client, settings):
    settings.INVITATIONS_PER_HOUR = 3
    answers = [
        browser_client.post(
            "/settings/members/invite/", {"email": f"{number}@example.com", "role": "viewer"}
        )
        for number in range(5)
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert "3 invitations were mailed in the last hour" in answers[-1].text
    assert len(mail.outbox) == 3
