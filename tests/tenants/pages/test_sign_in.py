"""Tests of signing in and signing out."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tenants.accounts import (
    ACCOUNT_PAUSE,
    FAILURES_PER_ACCOUNT,
    FAILURES_PER_ADDRESS,
    device_token,
    make_sign_in_link,
)
from tenants.models import SignInAttempt, User, Workspace
from tenants.pages.accounts import DEVICE_COOKIE, WRONG

CREDENTIALS = {"email": "owner@example.com", "password": "correct horse 9"}


def is_signed_in(client: Client) -> bool:
    return client.get("/").status_code == 200


@pytest.mark.parametrize(
    "form",
    [{**CREDENTIALS, "password": "wrong"}, {**CREDENTIALS, "email": "nobody@example.com"}],
    ids=["wrong password", "unknown address"],
)
def test_a_wrong_address_and_a_wrong_password_get_the_same_response(client, workspace, form):
    answer = client.post("/sign-in/", form)

    assert answer.status_code == 200
    assert WRONG in answer.content.decode()
    assert not is_signed_in(client)


@pytest.mark.parametrize(
    ("target", "landing"),
    [
        ("/settings/keys/", "/settings/keys/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_signing_in_redirects_only_within_this_site(client, workspace, target, landing):
    answer = client.post("/sign-in/", {**CREDENTIALS, "next": target})

    assert answer.headers["Location"] == landing
    assert is_signed_in(client)


def test_the_address_is_case_insensitive(client, workspace):
    client.post("/sign-in/", {**CREDENTIALS, "email": "Owner@Example.com"})

    assert is_signed_in(client)


def guess(client: Client, address: str) -> int:
    """Try a wrong password from a network address and return the status of the response."""
    form = {**CREDENTIALS, "password": "wrong"}
    return client.post("/sign-in/", form, REMOTE_ADDR=address).status_code


def guess_from_everywhere() -> None:
    """Guess the owner's password from ever new addresses, until the account slows down."""
    for number in range(FAILURES_PER_ACCOUNT // FAILURES_PER_ADDRESS):
        for _ in range(FAILURES_PER_ADDRESS):
            guess(Client(), f"203.0.113.{number}")


def test_the_right_password_is_refused_after_too_many_failures_from_the_same_address(
    client, workspace
):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-in/", {**CREDENTIALS, "password": "wrong"})

    answer = client.post("/sign-in/", CREDENTIALS)

    assert answer.status_code == 429
    assert "Too many failed sign-ins" in answer.content.decode()
    assert not is_signed_in(client)


def test_wrong_passwords_of_strangers_do_not_lock_the_owner_out(client, workspace):
    statuses = [guess(Client(), "203.0.113.9") for _ in range(FAILURES_PER_ADDRESS + 3)]
    assert statuses[-3:] == [429, 429, 429]

    client.post("/sign-in/", CREDENTIALS, REMOTE_ADDR="198.51.100.7")

    assert is_signed_in(client)


def test_guesses_from_many_addresses_are_slowed_down_and_not_stopped(client, workspace):
    guess_from_everywhere()

    assert guess(Client(), "198.51.100.1") == 429
    SignInAttempt.objects.update(at=timezone.now() - ACCOUNT_PAUSE)
    assert guess(Client(), "198.51.100.1") == 200
    assert guess(Client(), "198.51.100.2") == 429


def test_a_known_device_signs_in_while_the_account_is_slowed_down(client, workspace):
    client.post("/sign-in/", CREDENTIALS)
    client.post("/sign-out/")
    guess_from_everywhere()

    assert Client().post("/sign-in/", CREDENTIALS).status_code == 429
    client.post("/sign-in/", CREDENTIALS)
    assert is_signed_in(client)


def test_a_known_device_cannot_guess_fast_either(client, workspace):
    client.post("/sign-in/", CREDENTIALS)
    client.post("/sign-out/")
    statuses = [guess(client, f"203.0.113.{number}") for number in range(FAILURES_PER_ADDRESS + 1)]

    assert statuses[-1] == 429


def test_a_device_of_one_account_is_not_known_to_another(client, workspace, stranger):
    client.post("/sign-in/", {"email": stranger.email, "password": "other horse 9"})
    client.post("/sign-out/")
    guess_from_everywhere()

    assert guess(client, "198.51.100.1") == 429


def test_a_forged_device_is_not_known(client, workspace):
    client.cookies[DEVICE_COOKIE] = device_token(CREDENTIALS["email"])[:-3] + "xyz"
    guess_from_everywhere()

    assert guess(client, "198.51.100.1") == 429


def test_a_reset_link_signs_in_while_the_account_is_slowed_down(client, owner, workspace):
    guess_from_everywhere()
    client.post("/password/reset/", {"email": owner.email})
    link = re.search(r"http://testserver(/password/reset/\S+)", str(mail.outbox[-1].body))
    assert link
    path = client.get(link[1], follow=True).redirect_chain[-1][0]
    client.post(path, {"password": "another horse 10"})

    assert is_signed_in(client)


def test_signing_in_does_not_reset_the_failures_of_others(client, workspace):
    for _ in range(FAILURES_PER_ADDRESS):
        guess(Client(), "203.0.113.9")
    client.post("/sign-in/", CREDENTIALS, REMOTE_ADDR="198.51.100.7")

    assert guess(Client(), "203.0.113.9") == 429


def test_signing_out_requires_post(browser_client):
    assert browser_client.get("/sign-out/").status_code == 405
    assert is_signed_in(browser_client)
    browser_client.post("/sign-out/")
    assert not is_signed_in(browser_client)


def test_a_form_from_another_site_cannot_sign_in(workspace):
    client = Client(enforce_csrf_checks=True)

    assert client.post("/sign-in/", CREDENTIALS).status_code == 403
    assert not is_signed_in(client)


def test_a_signed_out_visitor_returns_to_the_requested_page_after_signing_in(client, workspace):
    answer = client.get("/settings/keys/")

    assert answer.headers["Location"] == "/sign-in/?next=/settings/keys/"
    assert 'name="next" value="/settings/keys/"' in client.get(answer.headers["Location"]).text


@pytest.fixture
def link(owner: User, workspace: Workspace) -> str:
    return reverse("sign_in_link", args=[make_sign_in_link(owner)])


def test_viewing_a_sign_in_link_does_not_consume_it(client, link):
    for _ in range(3):
        assert client.get(link).status_code == 200
        assert client.head(link).status_code == 200
    assert not is_signed_in(client)
    client.post(link)
    assert is_signed_in(client)


def test_a_sign_in_link_works_once(client, link):
    client.post(link)
    second = Client()

    assert second.post(link).status_code == 410
    assert second.get(link).status_code == 410
    assert not is_signed_in(second)


def test_a_user_without_a_password_is_asked_to_choose_one_after_using_a_link(client, db):
    newcomer = User.objects.create_user("new@example.com")
    link = reverse("sign_in_link", args=[make_sign_in_link(newcomer)])

    assert client.post(link).headers["Location"] == "/password/"
