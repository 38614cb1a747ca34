"""Tests of signing in and signing out."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tenants.accounts import FAILURES_PER_ADDRESS, make_sign_in_link
from tenants.models import User, Workspace
from tenants.pages.accounts import WRONG

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


def test_the_right_password_is_refused_after_too_many_failures(client, workspace):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-in/", {**CREDENTIALS, "password": "wrong"})

    answer = client.post("/sign-in/", CREDENTIALS)

    assert answer.status_code == 429
    assert "Too many failed sign-ins" in answer.content.decode()
    assert not is_signed_in(client)


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
