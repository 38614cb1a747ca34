"""Tests of members and invitations over REST."""

from __future__ import annotations

import pytest
from django.core import mail
from rest_framework.test import APIClient

from tenants.keys import issue_key
from tenants.models import Invitation, Membership, User
from tests.conftest import add_member

MEMBERS = "/api/v1/members/"
INVITATIONS = "/api/v1/invitations/"


@pytest.fixture
def builder(workspace) -> Membership:
    return Membership.objects.get(user=add_member(workspace, Membership.Role.BUILDER))


def test_members_are_listed_with_email_and_role(api, owner, builder):
    found = {row["user"]["email"]: row["role"] for row in api.get(MEMBERS).json()["results"]}

    assert found == {owner.email: "owner", builder.user.email: "builder"}


def test_the_list_takes_the_same_queries_for_any_number_of_members(
    api, workspace, django_assert_num_queries
):
    api.get(MEMBERS)
    with django_assert_num_queries(2):
        api.get(MEMBERS)
    for number in range(5):
        add_member(workspace, "viewer", f"{number}@example.com")
    with django_assert_num_queries(2):
        api.get(MEMBERS)


def test_an_admin_can_change_a_role(api, builder):
    answer = api.patch(f"{MEMBERS}{builder.pk}/", {"role": "viewer"}, format="json")

    assert (answer.status_code, answer.json()["role"]) == (200, "viewer")
    builder.refresh_from_db()
    assert builder.role == "viewer"


@pytest.mark.parametrize("role", ["king", "", None])
def test_an_unknown_role_is_refused(api, builder, role):
    answer = api.patch(f"{MEMBERS}{builder.pk}/", {"role": role}, format="json")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "role"


def test_a_key_cannot_make_owners(api, builder):
    answer = api.patch(f"{MEMBERS}{builder.pk}/", {"role": "owner"}, format="json")

    assert answer.status_code == 403


def test_the_last_owner_cannot_leave(browser_client, workspace, owner):
    own = Membership.objects.get(user=owner)
    answer = browser_client.delete(f"{MEMBERS}{own.pk}/")

    assert (answer.status_code, answer.json()["code"]) == (409, "last_owner")


def test_a_member_can_leave_but_cannot_remove_others(client, builder, workspace):
    other = Membership.objects.get(user=add_member(workspace, "viewer"))
    client.force_login(builder.user)

    assert client.delete(f"{MEMBERS}{other.pk}/").status_code == 403
    assert client.delete(f"{MEMBERS}{builder.pk}/").status_code == 204
    assert not Membership.objects.filter(pk=builder.pk).exists()


def test_an_invitation_is_mailed_and_its_link_shown_once(api):
    body = {"email": "New@Example.com", "role": "viewer"}
    sent = api.post(INVITATIONS, body, format="json").json()

    assert sent["email"] == "new@example.com"
    assert sent["link"] in mail.outbox[0].body
    assert "link" not in api.get(f"{INVITATIONS}{sent['id']}/").json()


def test_an_invitation_can_be_withdrawn(api):
    sent = api.post(INVITATIONS, {"email": "new@example.com"}, format="json").json()

    assert api.delete(f"{INVITATIONS}{sent['id']}/").status_code == 204
    assert not Invitation.objects.exists()
    assert api.delete(f"{INVITATIONS}{sent['id']}/").status_code == 404


def test_a_member_is_not_invited_again(api, builder):
    answer = api.post(INVITATIONS, {"email": builder.user.email}, format="json")

    assert answer.status_code == 409


def test_a_builder_cannot_see_invitations(client, builder):
    client.force_login(builder.user)

    assert client.get(INVITATIONS).status_code == 403


def test_removing_a_member_revokes_their_keys_in_that_workspace(
    api, workspace, foreign_workspace, owner, builder
):
    Membership.objects.create(workspace=foreign_workspace, user=builder.user)
    words = {"name": "theirs", "created_by": builder.user}
    theirs = issue_key(workspace_id=workspace.pk, **words)
    elsewhere = issue_key(workspace_id=foreign_workspace.pk, **words)
    others = issue_key(workspace_id=workspace.pk, name="ours", created_by=owner)

    assert api.delete(f"{MEMBERS}{builder.pk}/").status_code == 204

    assert [key_works(made.secret) for made in (theirs, elsewhere, others)] == [False, True, True]


@pytest.mark.parametrize(
    ("role", "rights"), [("admin", "read run admin"), ("builder", "read run"), ("viewer", "read")]
)
def test_a_key_loses_the_permissions_that_its_creator_lost(api, workspace, role, rights):
    person = add_member(workspace, "admin")
    issued = issue_key(workspace_id=workspace.pk, name="k", scope="admin", created_by=person)
    member = Membership.objects.get(workspace=workspace, user=person)
    assert api.patch(f"{MEMBERS}{member.pk}/", {"role": role}, format="json").status_code == 200
    program = APIClient(headers={"x-api-key": issued.secret})

    answers = {
        "read": program.get(MEMBERS),
        "run": program.post("/api/v1/sessions/", {"agent": "Coder"}, format="json"),
        "admin": program.get("/api/v1/keys/"),
    }

    allowed = [name for name, answer in answers.items() if answer.status_code != 403]
    assert allowed == rights.split()
    if role != "admin":
        assert "has lost that right" in answers["admin"].json()["detail"]


def test_keys_stop_working_while_their_creator_is_deactivated(workspace):
    person = add_member(workspace, "admin")
    issued = issue_key(workspace_id=workspace.pk, name="k", created_by=person)

    seen = []
    for is_active in (True, False, True):
        User.objects.filter(pk=person.pk).update(is_active=is_active)
        seen.append(key_works(issued.secret))

    assert seen == [True, False, True]


def test_a_key_stops_working_when_its_creators_membership_is_deleted(workspace):
    person = add_member(workspace, "admin")
    issued = issue_key(workspace_id=workspace.pk, name="k", created_by=person)

    Membership.objects.filter(user=person).delete()

    assert not key_works(issued.secret)


def key_works(secret: str) -> bool:
    return APIClient(headers={"x-api-key": secret}).get(MEMBERS).status_code == 200


def test_an_invitation_leads_to_this_site_whatever_host_is_asked_for(api, settings):
    settings.PUBLIC_URL = "https://yard.example"
    body = {"email": "new@example.com", "role": "viewer"}
    sent = api.post(INVITATIONS, body, format="json", HTTP_HOST="testserver:6666").json()

    assert sent["link"].startswith("https://yard.example/invitations/")
    assert sent["link"] in str(mail.outbox[-1].body)
