"""Tests of the list of sessions."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.definitions import create_agent
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.pages.sessions import SESSIONS_PER_PAGE
from sessions_app.sessions import archive, get_or_create_session
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.parking import park


def titles(page: str) -> list[str]:
    return re.findall(r'data-export="[^"]+">([^<]+)</a>', page)


def named(agent, title: str) -> Session:
    return get_or_create_session(agent=agent, title=title)[0]


def test_sessions_are_listed_by_their_last_activity(browser_client, agent):
    first, second = named(agent, "First"), named(agent, "Second")
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hello"})
    run_queue.accept(first.pk, message)
    page = browser_client.get("/sessions/").text

    assert titles(page) == ["First", "Second"]
    assert f'href="/sessions/{second.pk}/" data-open="/sessions/{second.pk}/preview/"' in page


def test_an_empty_list_says_what_to_do(browser_client, workspace):
    page = browser_client.get("/sessions/").text

    assert "No sessions yet" in page
    assert "New chat" in page


def test_a_search_covers_titles_and_messages(browser_client, agent):
    for title in ("Signals and switches", "Else"):
        named(agent, title)
    spoken = named(agent, "Other")
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "repair the switch"})
    run_queue.accept(spoken.pk, message)

    assert sorted(titles(browser_client.get("/sessions/?q=switch").text)) == [
        "Other",
        "Signals and switches",
    ]
    assert "No matching sessions" in browser_client.get("/sessions/?q=zebra").text


def test_chips_filter_by_status_and_agent_and_can_be_removed(browser_client, agent, workspace):
    waiting, running, _idle = named(agent, "Waits"), named(agent, "Runs"), named(agent, "Rests")
    park(waiting, "tu_1")
    run_queue.accept(
        running.pk, NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hello"})
    )
    assert run_queue.claim(running.pk, OWNER)
    other = create_agent(workspace_id=workspace.pk, fields={"name": "Other"})
    named(other, "Elsewhere")

    assert titles(browser_client.get("/sessions/?status=requires_action").text) == ["Waits"]
    assert titles(browser_client.get("/sessions/?status=running").text) == ["Runs"]
    page = browser_client.get(f"/sessions/?status=idle&agent={agent.pk}").text
    assert titles(page) == ["Rests"]
    assert f'href="?agent={agent.pk}" aria-current="true"' in page
    assert f'<option value="{agent.pk}" selected>' in page


@pytest.mark.parametrize(
    "query",
    [
        "?status=nonsense",
        "?agent=x",
        "?after=",
        "?after=2026-01-01~x",
        "?after=2026-01-01T00:00:00~019a0000-0000-7000-8000-000000000000",
        "?sort=cost&after=NaN~019a0000-0000-7000-8000-000000000000",
        "?sort=events&after=99999999999999999999~019a0000-0000-7000-8000-000000000000",
        "?sort=lasted&after=5e9~019a0000-0000-7000-8000-000000000000",
        "?q=%00",
        "?sort=password",
        "?level=²",
    ],
)
def test_invalid_parameters_are_ignored(browser_client, agent, query):
    named(agent, "Here")

    assert titles(browser_client.get(f"/sessions/{query}").text) == ["Here"]


@pytest.mark.parametrize("sort", ["", "begun", "events", "tokens", "cost", "lasted", "-cost"])
def test_a_long_list_is_paged_in_every_order(browser_client, agent, sort):
    for number in range(SESSIONS_PER_PAGE + 3):
        one = named(agent, f"Session {number}")
        Session.objects.filter(pk=one.pk).update(cost=number // 2, input_tokens=number // 3)
    seen: list[str] = []
    path = f"/sessions/?sort={sort}"
    while path:
        page = browser_client.get(path).text
        seen += titles(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = f"/sessions/{unescape(older[1])}" if older else ""

    assert len(seen) == len(set(seen)) == SESSIONS_PER_PAGE + 3
    if sort.endswith("cost"):
        costs = [int(title.split()[1]) // 2 for title in seen]
        assert costs == sorted(costs, reverse=sort == "cost")


def test_fifty_rows_cost_as_many_queries_as_one(browser_client, agent, session, monkeypatch):
    """Count also rows with children, errors, a pending call and a snippet.

    The second step of a search, of two statements, is counted in `test_search.py`.
    """
    monkeypatch.setattr("sessions_app.search.FIRST_SESSIONS", 1_000)

    def count(query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            page = browser_client.get(f"/sessions/{query}").text
        assert titles(page)
        return len(captured)

    def add_session(number: int) -> None:
        one = named(agent, f"More {number}")
        park(one, f"tu_{number}")
        get_or_create_session(agent=agent, title="Child", parent=one)
        Run.objects.create(workspace_id=one.workspace_id, session=one, status="dead")

    add_session(0)
    before = count(""), count("?q=clean")
    for number in range(1, SESSIONS_PER_PAGE):
        add_session(number)

    assert (count(""), count("?q=clean")) == before


def test_flags_filter_by_errors_approvals_and_own_sessions(browser_client, agent, owner):
    fine, broken, waits = named(agent, "Fine"), named(agent, "Broken"), named(agent, "Waits")
    Run.objects.create(workspace_id=broken.workspace_id, session=broken, status="failed")
    park(waits, "tu_1")
    Session.objects.filter(pk=fine.pk).update(created_by=owner)

    assert titles(browser_client.get("/sessions/?errors=1").text) == ["Broken"]
    assert titles(browser_client.get("/sessions/?approval=1").text) == ["Waits"]
    assert titles(browser_client.get("/sessions/?mine=1").text) == ["Fine"]


def test_sub_agents_are_listed_below_their_session_and_found_by_a_search(browser_client, agent):
    top = named(agent, "Top")
    child, _ = get_or_create_session(agent=agent, title="Below", parent=top)

    assert titles(browser_client.get("/sessions/").text) == ["Top"]
    assert titles(browser_client.get("/sessions/?level=children").text) == ["Below"]
    assert titles(browser_client.get("/sessions/?q=below").text) == ["Below"]
    rows = browser_client.get(f"/sessions/{top.pk}/children/").text
    assert titles(rows) == ["Below"]
    assert 'data-depth="1"' in rows
    assert str(child.pk) in rows


def test_a_snippet_marks_the_words_and_is_escaped(browser_client, agent):
    spoken = named(agent, "Other")
    text = "Mind the <img src=x onerror=alert(1)> \x02 when you repair the switches tonight"
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})
    run_queue.accept(spoken.pk, message)
    page = browser_client.get("/sessions/?q=switch").text

    assert "<mark>switches</mark>" in page
    assert "<img src=x" not in page
    assert f'href="/sessions/{spoken.pk}/replay/?at=1"' in page


def test_the_preview_pane_shows_the_newest_messages(browser_client, session, agent):
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "Hello <b>yard</b>"})
    run_queue.accept(session.pk, message)
    pane = browser_client.get(f"/sessions/{session.pk}/preview/").text

    assert "Hello &lt;b&gt;yard&lt;/b&gt;" in pane
    assert f'href="/chat/{session.pk}/"' in pane
    assert "<html" not in pane


def test_archived_and_foreign_sessions_are_not_listed(
    browser_client, agent, owner, foreign_workspace
):
    archive(named(agent, "Put away"), owner.pk)
    theirs = create_agent(workspace_id=foreign_workspace.pk, fields={"name": "Theirs"})
    named(theirs, "Secret")
    page = browser_client.get("/sessions/").text

    assert titles(page) == []
    assert "Theirs" not in page
