"""Tests of signing up."""

from __future__ import annotations

import pytest

from tenants.accounts import FAILURES_PER_ADDRESS
from tenants.models import Membership, User
from tests.tenants.pages.test_members import invite_and_get_link

FORM = {"name": "Ada Ash", "email": "ada@example.com", "password": "correct horse 9"}


@pytest.fixture
def anyone(settings) -> None:
    """Let everyone create an account."""
    settings.SIGN_UP = "open"


def test_signing_up_creates_a_workspace_and_redirects_to_home(client, db):
    answer = client.post("/sign-up/", FORM)

    assert answer.headers["Location"] == "/"
    own = Membership.objects.select_related("workspace").get(user__email="ada@example.com")
    assert (own.role, own.workspace.name) == ("owner", "Ada Ash's workspace")
    assert "Ada Ash&#x27;s workspace" in client.get("/").text


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (
            {**FORM, "email": "OWNER@example.com"},
            "An account with this e-mail address already exists",
        ),
        ({**FORM, "password": "password"}, "too common"),
        ({**FORM, "email": "not an address"}, "valid email address"),
        ({**FORM, "name": ""}, "This field is required"),
    ],
)
def test_an_error_is_shown_at_its_field(client, owner, anyone, form, complaint):
    answer = client.post("/sign-up/", form)

    assert complaint in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert User.objects.count() == 1


def test_guessing_which_addresses_have_an_account_is_throttled(client, owner, anyone):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-up/", {**FORM, "email": owner.email})

    assert client.post("/sign-up/", {**FORM, "email": owner.email}).status_code == 429


def test_a_signed_in_user_is_redirected_to_home(browser_client):
    assert browser_client.get("/sign-up/").headers["Location"] == "/"


@pytest.mark.parametrize("mode", ["open", "invitation", "closed"])
def test_the_first_account_can_always_be_created_and_is_the_operators(client, db, settings, mode):
    settings.SIGN_UP = mode

    assert client.post("/sign-up/", FORM).status_code == 302
    first = User.objects.get()
    assert (first.is_staff, first.is_superuser) == (True, True)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("invitation", "New accounts need an invitation"), ("closed", "does not accept new accounts")],
)
def test_after_the_first_account_strangers_cannot_create_one(client, owner, settings, mode, words):
    settings.SIGN_UP = mode

    page, refused = client.get("/sign-up/").text, client.post("/sign-up/", FORM)

    assert words in page
    assert "<form" not in page
    assert (refused.status_code, words in refused.text) == (403, True)
    assert User.objects.count() == 1
    door = client.get("/sign-in/").text
    assert words in door
    assert "Create an account" not in door


def test_by_default_an_account_needs_an_invitation(client, owner):
    assert client.post("/sign-up/", FORM).status_code == 403


def test_an_account_of_open_sign_up_is_not_staff(client, owner, anyone):
    client.post("/sign-up/", FORM)

    newcomer = User.objects.get(email="ada@example.com")
    assert (newcomer.is_staff, newcomer.is_superuser) == (False, False)


@pytest.mark.parametrize(("mode", "status", "people"), [("invitation", 302, 2), ("closed", 403, 1)])
def test_an_invitation_creates_an_account_unless_sign_up_is_closed(
    browser_client, client, settings, mode, status, people
):
    settings.SIGN_UP = mode
    link = invite_and_get_link(browser_client)

    assert client.post(link, FORM).status_code == status
    assert User.objects.count() == people


def test_a_closed_installation_says_so_on_an_invitation(browser_client, client, settings):
    settings.SIGN_UP = "closed"
    page = client.get(invite_and_get_link(browser_client)).text

    assert "does not accept new accounts" in page
    assert "Create account" not in page
    assert "Sign in</a> with an account to join" in page


def test_an_invited_person_is_not_staff(browser_client, client):
    client.post(invite_and_get_link(browser_client), FORM)

    assert not User.objects.get(email="ada@example.com").is_staff
