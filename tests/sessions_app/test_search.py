"""Tests of the search in sessions: what it finds, in which order, and by which indexes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from sessions_app import search
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.search import find_matches, find_snippets
from sessions_app.sessions import get_or_create_session
from tenants.models import Workspace
from tests.factories import agent
from tests.statements import recorded_statements

pytestmark = pytest.mark.django_db


def start(workspace: Workspace, title: str, text: str = "") -> Session:
    made, _ = get_or_create_session(agent=agent(workspace), title=title)
    if text:
        append_events(
            made.pk, [NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})]
        )
    return made


def found(workspace: Workspace, text: str, limit: int = 10) -> list[str]:
    rows = Session.objects.for_workspace(workspace.pk).latest_first()
    matches = find_matches(rows, text, limit=limit)
    titles = dict(Session.objects.values_list("pk", "title"))
    return [titles[pk] for pk in matches]


@pytest.mark.parametrize(
    ("first", "rare", "more"),
    [(200, 1, 1), (1, 1_000, 1), (1, 1, 200), (1, 1, 1)],
    ids=["first-sessions", "rare-words", "more-sessions", "all-sessions"],
)
def test_all_ways_of_searching_find_the_same(
    workspace: Workspace,
    foreign_workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    rare: int,
    more: int,
):
    monkeypatch.setattr(search, "FIRST_SESSIONS", first)
    monkeypatch.setattr(search, "RARE_MATCHES", rare)
    monkeypatch.setattr(search, "MORE_SESSIONS", more)
    start(workspace, "Invoice 100%", "a report")
    start(workspace, "Other", "the invoices of May")
    start(workspace, "发票和报告", "nothing")
    start(foreign_workspace, "Invoice elsewhere", "invoice")

    assert found(workspace, "invoice") == ["Other", "Invoice 100%"]
    assert found(workspace, "VOI") == ["Invoice 100%"]
    assert found(workspace, "票和") == ["发票和报告"]
    assert found(workspace, "%") == ["Invoice 100%"]
    assert found(workspace, "i") == ["Invoice 100%"]
    assert found(workspace, "invoice", limit=1) == ["Other"]


def test_a_common_word_is_not_searched_in_all_sessions(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "FIRST_SESSIONS", 2)
    for number in range(4):
        start(workspace, f"Session {number}", "a report")

    with recorded_statements() as statements:
        assert found(workspace, "report", limit=2) == ["Session 3", "Session 2"]

    assert not [one for one in statements if "UNION" in one]


def test_a_word_that_is_not_rare_is_searched_in_more_sessions_before_all(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "FIRST_SESSIONS", 2)
    monkeypatch.setattr(search, "RARE_MATCHES", 2)
    monkeypatch.setattr(search, "MORE_SESSIONS", 4)
    for number in range(6):
        start(workspace, f"Session {number}", "a report" if number % 2 else "a note")

    with recorded_statements() as statements:
        assert found(workspace, "report", limit=2) == ["Session 5", "Session 3"]

    assert not [one for one in statements if "IN (SELECT" in one or "IN ((SELECT" in one]


def test_a_rare_word_takes_two_more_statements_however_many_sessions_there_are(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "FIRST_SESSIONS", 2)
    start(workspace, "Rare", "a zebra")
    rows = Session.objects.for_workspace(workspace.pk).latest_first()
    counts = []
    for _ in range(2):
        for number in range(4):
            start(workspace, f"Session {number}", "a report")
        with recorded_statements() as statements:
            assert len(find_matches(rows, "zebra", limit=5)) == 1
        counts.append(len(statements))

    assert counts == [4, 4]


def test_a_rare_word_is_found_by_index_and_without_a_join(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    """A join would read every session: the planner overestimates how common the word is."""
    monkeypatch.setattr(search, "FIRST_SESSIONS", 2)
    monkeypatch.setattr(search, "MORE_SESSIONS", 2)
    for number in range(3):
        start(workspace, f"Session {number}", "a zebra and another zebra")
    with recorded_statements() as statements:
        assert found(workspace, "zebra") == ["Session 2", "Session 1", "Session 0"]

    assert not [one for one in statements if "UNION" in one and "JOIN" in one]
    assert not [one for one in statements if "IN (SELECT" in one or "IN ((SELECT" in one]
    facts: dict[str, Any] = {"text": "zebra", "most": 1_000, "has_words": True}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {search.RARE_SESSIONS}", facts)
        lines = "\n".join(line for (line,) in cursor.fetchall())
    assert "session_by_title" in lines
    assert "event_by_words" in lines
    assert "Seq Scan" not in lines


@pytest.mark.parametrize(("rare", "more"), [(1, 1), (1, 1_000), (1_000, 1)])
def test_the_newest_match_is_the_same_however_it_is_found(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, rare: int, more: int
):
    monkeypatch.setattr(search, "FIRST_SESSIONS", 1)
    monkeypatch.setattr(search, "RARE_MATCHES", rare)
    monkeypatch.setattr(search, "MORE_SESSIONS", more)
    session = start(workspace, "A zebra", "a zebra")
    for text in ("the zebra again", "thanks"):
        append_events(
            session.pk, [NewEvent(type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": text})]
        )
    start(workspace, "Zebras of May")
    start(workspace, "Later")

    rows = Session.objects.for_workspace(workspace.pk).latest_first()
    assert list(find_matches(rows, "zebra", limit=5).values()) == [None, 2]


def test_one_or_two_letters_are_not_searched_in_messages(workspace: Workspace):
    start(workspace, "Notes", "an ox")

    with recorded_statements() as statements:
        assert found(workspace, "ox") == []

    assert not [one for one in statements if "session_messages" in one]


def test_a_snippet_is_of_the_newest_message_that_matches(workspace: Workspace):
    session = start(workspace, "Notes", "an old report")
    for text in ("the new report", "thanks"):
        append_events(
            session.pk, [NewEvent(type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": text})]
        )

    rows = Session.objects.for_workspace(workspace.pk).latest_first()
    snippets = find_snippets(find_matches(rows, "reports", limit=5), "reports")

    assert snippets[session.pk].seq == 2
    assert [piece.text for piece in snippets[session.pk].pieces if piece.is_found] == ["report"]


def plan(query: str, *params: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {query}", params)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_titles_and_the_latest_activity_are_read_by_index(workspace: Workspace):
    rows = Session.objects.for_workspace(workspace.pk)

    assert "session_by_activity" in plan(*_sql(rows.latest_first()[:5]))
    assert "session_by_title" in plan(*_sql(Session.objects.titled("inv").order_by()))


def _sql(rows: Any) -> tuple[Any, ...]:
    query, params = rows.query.sql_with_params()
    return (query, *params)


def test_the_writes_of_a_turn_stay_on_their_page_within_a_period(workspace: Workspace):
    """An index on `active_at` itself would end this: see `Session.active_period`."""
    start(workspace, "Notes")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'agent_sessions'::regclass"
        )
        indexed = {name for (name,) in cursor.fetchall()}

    assert "active_period" in indexed
    assert not indexed & {"active_at", "last_seq", "status", "cost", "input_tokens"}
