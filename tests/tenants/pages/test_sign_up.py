"""Tests of signing up."""

from __future__ import annotations

import pytest

from tenants.accounts import FAILURES_PER_ADDRESS
from tenants.models import Membership, User

FORM = {"name": "Ada Ash", "email": "ada@example.com", "password": "correct horse 9"}


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
def test_an_error_is_shown_at_its_field(client, owner, form, complaint):
    answer = client.post("/sign-up/", form)

    assert complaint in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert User.objects.count() == 1


def test_guessing_which_addresses_have_an_account_is_throttled(client, owner):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-up/", {**FORM, "email": owner.email})

    assert client.post("/sign-up/", {**FORM, "email": owner.email}).status_code == 429


def test_a_signed_in_user_is_redirected_to_home(browser_client):
    assert browser_client.get("/sign-up/").headers["Location"] == "/"
