"""The list of sessions."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.definitions import create_agent
from sessions_app import lanes
from sessions_app.log import NewEvent
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.sessions import PAGE
from sessions_app.sessions import archive, get_or_create_session
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.parking import park


def titles(page: str) -> list[str]:
    return re.findall(r'<a href="/chat/[0-9a-f-]+/">([^<]+)</a>', page)


def named(agent, title: str) -> Session:
    return get_or_create_session(agent=agent, title=title)[0]


def test_sessions_are_listed_by_their_last_activity(browser_client, agent):
    first, second = named(agent, "First"), named(agent, "Second")
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hello"})
    lanes.accept(first.pk, message)
    page = browser_client.get("/sessions/").text

    assert titles(page) == ["First", "Second"]
    assert f'href="/chat/{second.pk}/"' in page


def test_an_empty_list_says_what_to_do(browser_client, workspace):
    page = browser_client.get("/sessions/").text

    assert "No sessions yet" in page
    assert "Talk to an agent" in page


def test_words_are_found_in_titles_and_messages(browser_client, agent):
    for title in ("Signals and switches", "Else"):
        named(agent, title)
    spoken = named(agent, "Other")
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "repair the switch"})
    lanes.accept(spoken.pk, message)

    assert sorted(titles(browser_client.get("/sessions/?q=switch").text)) == [
        "Other",
        "Signals and switches",
    ]
    assert "Nothing matches" in browser_client.get("/sessions/?q=zebra").text


def test_chips_narrow_by_status_and_agent_and_take_it_back(browser_client, agent, workspace):
    waiting, running, _idle = named(agent, "Waits"), named(agent, "Runs"), named(agent, "Rests")
    park(waiting, "tu_1")
    lanes.accept(
        running.pk, NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hello"})
    )
    assert lanes.claim(running.pk, OWNER)
    other = create_agent(workspace_id=workspace.pk, fields={"name": "Other"})
    named(other, "Elsewhere")

    assert titles(browser_client.get("/sessions/?status=requires_action").text) == ["Waits"]
    assert titles(browser_client.get("/sessions/?status=running").text) == ["Runs"]
    page = browser_client.get(f"/sessions/?status=idle&agent={agent.pk}").text
    assert titles(page) == ["Rests"]
    assert f'href="?agent={agent.pk}" aria-current="true"' in page
    assert 'href="?status=idle" aria-current="true"' in page


@pytest.mark.parametrize(
    "query", ["?status=nonsense", "?agent=x", "?page=-1", "?page=99999999", "?q=%00", "?page=²"]
)
def test_nonsense_in_the_address_narrows_nothing(browser_client, agent, query):
    named(agent, "Here")

    assert browser_client.get(f"/sessions/{query}").status_code == 200


def test_a_long_list_has_pages(browser_client, agent):
    for number in range(PAGE + 1):
        named(agent, f"Session {number}")
    page = browser_client.get("/sessions/?q=Session").text

    assert len(titles(page)) == PAGE
    assert 'href="?q=Session&amp;page=2">Older' in page
    older = browser_client.get("/sessions/?q=Session&page=2").text
    assert titles(older) == ["Session 0"]
    assert 'href="?q=Session">Newer' in older


def test_the_number_of_queries_does_not_grow(browser_client, agent):
    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            browser_client.get("/sessions/")
        return len(captured)

    named(agent, "One")
    before = count()
    for number in range(20):
        named(agent, f"More {number}")

    assert count() == before


def test_archived_and_foreign_sessions_are_not_listed(
    browser_client, agent, owner, foreign_workspace
):
    archive(named(agent, "Put away"), owner.pk)
    theirs = create_agent(workspace_id=foreign_workspace.pk, fields={"name": "Theirs"})
    named(theirs, "Secret")
    page = browser_client.get("/sessions/").text

    assert titles(page) == []
    assert "Theirs" not in page
