"""A new person."""

from __future__ import annotations

import pytest

from tenants.accounts import FAILURES_PER_ADDRESS
from tenants.models import Membership, User

TYPED = {"name": "Ada Ash", "email": "ada@example.com", "password": "correct horse 9"}


def test_signing_up_gives_a_workspace_of_ones_own_and_goes_home(client, db):
    answer = client.post("/sign-up/", TYPED)

    assert answer.headers["Location"] == "/"
    own = Membership.objects.select_related("workspace").get(user__email="ada@example.com")
    assert (own.role, own.workspace.name) == ("owner", "Ada Ash's workspace")
    assert "Ada Ash&#x27;s workspace" in client.get("/").text


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (
            {**TYPED, "email": "OWNER@example.com"},
            "An account with this e-mail address already exists",
        ),
        ({**TYPED, "password": "password"}, "too common"),
        ({**TYPED, "email": "not an address"}, "valid email address"),
        ({**TYPED, "name": ""}, "This field is required"),
    ],
)
def test_what_is_wrong_stands_beside_the_field(client, owner, typed, complaint):
    answer = client.post("/sign-up/", typed)

    assert complaint in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert User.objects.count() == 1


def test_which_addresses_have_an_account_cannot_be_tried_out_for_ever(client, owner):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-up/", {**TYPED, "email": owner.email})

    assert client.post("/sign-up/", {**TYPED, "email": owner.email}).status_code == 429


def test_whoever_is_signed_in_already_goes_home(browser_client):
    assert browser_client.get("/sign-up/").headers["Location"] == "/"
