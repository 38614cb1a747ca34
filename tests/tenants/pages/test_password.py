"""Tests of setting, changing and resetting a password."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client

from tenants.models import User

NEW = "another horse 10"


def test_changing_the_password_needs_the_old_one(browser_client, owner):
    answer = browser_client.post("/password/", {"current": "wrong", "password": NEW})

    assert "This is not your current password" in answer.text
    owner.refresh_from_db()
    assert not owner.check_password(NEW)


def test_changing_the_password_keeps_this_browser_and_signs_out_the_others(browser_client, owner):
    other = Client()
    other.force_login(owner)
    browser_client.post("/password/", {"current": "correct horse 9", "password": NEW})

    assert browser_client.get("/").status_code == 200
    assert other.get("/").status_code == 302
    owner.refresh_from_db()
    assert owner.check_password(NEW)


def test_a_weak_password_is_refused_with_the_reason(browser_client, owner):
    answer = browser_client.post("/password/", {"current": "correct horse 9", "password": "123"})

    assert "too short" in answer.text


def test_the_first_password_needs_no_old_one(client, db):
    newcomer = User.objects.create_user("new@example.com")
    client.force_login(newcomer)
    assert "Current password" not in client.get("/password/").text
    client.post("/password/", {"password": NEW})

    newcomer.refresh_from_db()
    assert newcomer.check_password(NEW)


def mailed_link(client: Client, email: str) -> str:
    client.post("/password/reset/", {"email": email})
    found = re.search(r"http://testserver(/password/reset/\S+)", str(mail.outbox[-1].body))
    assert found
    return found[1]


def test_the_mailed_link_sets_a_new_password_and_signs_in(client, owner, workspace):
    form = client.get(mailed_link(client, "Owner@example.com"), follow=True)
    path = form.redirect_chain[-1][0]
    assert owner.password not in path
    client.post(path, {"password": NEW})

    assert client.get("/").status_code == 200
    owner.refresh_from_db()
    assert owner.check_password(NEW)


def test_a_reset_link_expires_when_the_password_changes(client, owner, workspace):
    link = mailed_link(client, owner.email)
    client.post(client.get(link, follow=True).redirect_chain[-1][0], {"password": NEW})

    assert "This link has expired" in Client().get(link, follow=True).text


def test_a_user_without_a_password_can_get_a_reset_link(client, db):
    User.objects.create_user("new@example.com")

    assert mailed_link(client, "new@example.com")


def test_an_unknown_address_gets_the_same_response_and_no_mail(client, owner):
    known = client.post("/password/reset/", {"email": owner.email})
    unknown = client.post("/password/reset/", {"email": "nobody@example.com"})

    assert known.headers["Location"] == unknown.headers["Location"]
    assert [message.to for message in mail.outbox] == [[owner.email]]


def test_a_mailbox_cannot_be_flooded(client, owner):
    for _ in range(30):
        client.post("/password/reset/", {"email": owner.email})

    assert len(mail.outbox) == 10


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("filebased", "was written to DATA_DIR/mail on the server"),
        ("console", "was written to the server&#x27;s console"),
    ],
)
def test_the_page_says_where_the_mail_went_without_a_mail_server(
    client, db, settings, backend, words
):
    settings.EMAIL_BACKEND = f"django.core.mail.backends.{backend}.EmailBackend"
    settings.EMAIL_FILE_PATH = "/srv/mail"

    page = client.get("/password/reset/sent/").text
    assert words in page
    assert "/srv/mail" not in page


@pytest.mark.parametrize("host", ["evil.example", "testserver:6666", "testserver:80@evil.example"])
def test_a_reset_link_leads_to_this_site_whatever_host_is_asked_for(client, owner, settings, host):
    settings.ALLOWED_HOSTS = ["testserver"]
    client.post("/password/reset/", {"email": owner.email}, HTTP_HOST=host)

    for message in mail.outbox:
        assert "http://testserver/password/reset/" in str(message.body)
        assert "6666" not in str(message.body)
        assert "evil" not in str(message.body)
