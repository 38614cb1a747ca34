"""Tests of the home page's first steps and of the rail."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from tenants.access import principal_of_user
from tenants.keys import issue_key
from tenants.notifications import inbox
from tenants.pages import home as overview
from tenants.pages import navigation
from tests.conftest import add_member


def steps_of(client: Client) -> dict[str, str]:
    """Return the state of each step by its title."""
    page = client.get("/").text
    found = re.findall(r'<li class="todo ?([\w-]*)">.*?<h3>([^<]+)', page, re.DOTALL)
    return {title: state for state, title in found}


def test_issuing_a_key_completes_its_step(browser_client, workspace):
    assert steps_of(browser_client)["Call it from your code"] != "is-done"
    issue_key(workspace_id=workspace.pk, name="CI")
    assert steps_of(browser_client)["Call it from your code"] == "is-done"


def test_a_second_member_completes_the_invitation_step(browser_client, workspace):
    assert steps_of(browser_client)["Invite someone"] != "is-done"
    add_member(workspace, "viewer")
    assert steps_of(browser_client)["Invite someone"] == "is-done"


def test_only_the_first_open_step_is_marked_as_next(browser_client):
    states = list(steps_of(browser_client).values())

    assert states.count("is-next") == 1
    assert states[0] == "is-next"


@pytest.mark.parametrize("role", ["viewer", "builder"])
def test_steps_that_a_role_may_not_take_are_hidden(workspace, role):
    client = Client()
    client.force_login(add_member(workspace, role))

    assert not {"Call it from your code", "Invite someone"} & steps_of(client).keys()


def test_a_user_without_a_password_is_asked_for_one_first(client, workspace, owner):
    owner.set_unusable_password()
    owner.save()
    client.force_login(owner)

    assert next(iter(steps_of(client).items())) == ("Choose a password", "is-next")


def test_the_rail_has_no_dead_links(browser_client):
    page = browser_client.get("/").text
    places = set(re.findall(r'class="rail-item" href="([^"]+)"', page))

    assert len(places) > 5
    for url in places:
        assert browser_client.get(url, follow=True).status_code == 200


def test_the_current_page_is_marked_in_the_rail(browser_client):
    page = browser_client.get("/settings/keys/").text

    assert 'href="/settings/" data-go="t" aria-current="page"' in page
    assert page.count('aria-current="page"') >= 1


def test_the_rail_counts_pending_approvals(browser_client, workspace, monkeypatch):
    monkeypatch.setattr(
        navigation, "count_pending", lambda acting: 7 if acting == workspace.pk else 0
    )

    assert re.search(r'<span class="rail-count"[^>]*>7</span>', browser_client.get("/").text)


def headings_of(client: Client) -> list[str]:
    return re.findall(r'<h2 id="part-\d+">([^<]+)', client.get("/").text)


def test_home_shows_pending_approvals_before_recent_activity(
    browser_client, workspace, monkeypatch
):
    def section(title: str, count: int = 1) -> overview.HomeSection:
        item = overview.HomeItem(title=f"{title} line", url="/chat/", at=timezone.now())
        return overview.HomeSection(title=title, url="/", more="All", lines=[item] * count)

    monkeypatch.setattr(overview, "recent", lambda *_: section("Recent"))
    monkeypatch.setattr(overview, "workflows", lambda *_: section("Workflows", count=0))
    monkeypatch.setattr(overview, "pending_approvals", lambda *_: section("Needs you"))

    assert headings_of(browser_client) == ["Needs you", "Recent"]
    assert "Recent line" in browser_client.get("/").text


def test_home_shows_unread_messages_until_they_are_read(browser_client, workspace, owner):
    item = inbox.put(workspace.pk, kind="warning", title="Credits are low", body="Soon.")
    assert headings_of(browser_client) == ["Unread"]
    inbox.mark(principal_of_user(owner, workspace.pk), item, read=True)

    assert headings_of(browser_client) == []


def test_completed_steps_are_hidden_once_there_is_activity(browser_client, workspace):
    issue_key(workspace_id=workspace.pk, name="CI")
    inbox.put(workspace.pk, kind="notice", title="Hello", body="It is on.")

    left = steps_of(browser_client)
    assert "Call it from your code" not in left
    assert "Invite someone" in left
