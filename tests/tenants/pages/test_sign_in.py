"""Coming in and going out."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from tenants.accounts import FAILURES_PER_ADDRESS, make_sign_in_link
from tenants.models import User, Workspace
from tenants.pages.accounts import WRONG

RIGHT = {"email": "owner@example.com", "password": "correct horse 9"}


def is_signed_in(client: Client) -> bool:
    return client.get("/").status_code == 200


@pytest.mark.parametrize(
    "typed",
    [{**RIGHT, "password": "wrong"}, {**RIGHT, "email": "nobody@example.com"}],
    ids=["wrong password", "unknown address"],
)
def test_a_wrong_address_and_a_wrong_password_get_the_same_answer(client, workspace, typed):
    answer = client.post("/sign-in/", typed)

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
def test_after_signing_in_a_person_goes_on_only_to_this_site(client, workspace, target, landing):
    answer = client.post("/sign-in/", {**RIGHT, "next": target})

    assert answer.headers["Location"] == landing
    assert is_signed_in(client)


def test_the_address_is_not_asked_for_in_its_exact_case(client, workspace):
    client.post("/sign-in/", {**RIGHT, "email": "Owner@Example.com"})

    assert is_signed_in(client)


def test_after_too_many_failures_even_the_right_password_must_wait(client, workspace):
    for _ in range(FAILURES_PER_ADDRESS):
        client.post("/sign-in/", {**RIGHT, "password": "wrong"})

    answer = client.post("/sign-in/", RIGHT)

    assert answer.status_code == 429
    assert "Too many failed sign-ins" in answer.content.decode()
    assert not is_signed_in(client)


def test_signing_out_takes_a_post(browser_client):
    assert browser_client.get("/sign-out/").status_code == 405
    assert is_signed_in(browser_client)
    browser_client.post("/sign-out/")
    assert not is_signed_in(browser_client)


def test_a_form_from_another_site_signs_nobody_in(workspace):
    client = Client(enforce_csrf_checks=True)

    assert client.post("/sign-in/", RIGHT).status_code == 403
    assert not is_signed_in(client)


def test_a_page_asked_for_without_an_identity_is_reached_after_signing_in(client, workspace):
    answer = client.get("/settings/keys/")

    assert answer.headers["Location"] == "/sign-in/?next=/settings/keys/"
    assert 'name="next" value="/settings/keys/"' in client.get(answer.headers["Location"]).text


@pytest.fixture
def link(owner: User, workspace: Workspace) -> str:
    return reverse("sign_in_link", args=[make_sign_in_link(owner)])


def test_looking_at_a_link_does_not_use_it_up(client, link):
    for _ in range(3):
        assert client.get(link).status_code == 200
        assert client.head(link).status_code == 200
    assert not is_signed_in(client)
    client.post(link)
    assert is_signed_in(client)


def test_a_link_signs_in_once(client, link):
    client.post(link)
    second = Client()

    assert second.post(link).status_code == 410
    assert second.get(link).status_code == 410
    assert not is_signed_in(second)


def test_whoever_comes_by_link_without_a_password_is_asked_to_choose_one(client, db):
    newcomer = User.objects.create_user("new@example.com")
    link = reverse("sign_in_link", args=[make_sign_in_link(newcomer)])

    assert client.post(link).headers["Location"] == "/password/"
