"""Tests of what Home shows about sessions."""

from __future__ import annotations

from django.test import Client

from sessions_app.models import Approval, Session
from tests.conftest import add_member
from tests.sessions_app.waiting_calls import allow, parked


def test_an_approval_is_shown_on_home_until_it_is_answered(browser_client, session, principal):
    (asked,) = parked(session)
    home = browser_client.get("/").text
    assert "Needs you" in home
    assert f'href="/approvals/#asked-{asked.pk}"' in home

    allow(asked, principal)
    assert "#asked-" not in browser_client.get("/").text


def test_a_viewer_sees_no_secret_of_an_approval_on_home(workspace, session):
    (asked,) = parked(session)
    Approval.objects.filter(pk=asked.pk).update(title="curl --token abcdefgh")
    viewer = Client()
    viewer.force_login(add_member(workspace, "viewer"))

    home = viewer.get("/").text
    assert "#asked-" in home
    assert "abcdefgh" not in home
    assert "Needs you" not in home
    assert "Waiting for an answer" in home


def test_home_links_to_recent_chats(browser_client, session):
    Session.objects.filter(pk=session.pk).update(title="The red kettle", last_seq=1)

    home = browser_client.get("/").text
    assert "The red kettle" in home
    assert f'href="/chat/{session.pk}/"' in home
    assert "Set up" not in home
