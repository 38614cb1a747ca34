"""Tests of the usage page: its numbers, its permissions and its queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.definitions import create_agent
from sessions_app.models import Run, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import add_credits
from tenants.billing.spending import Charge, PlannedCall, Spender, reserve, settle
from tenants.models import ModelCall
from tests.conftest import add_member

D = Decimal


def spend(session, cost: str = "0.5", *, days_ago: int = 0, model: str = "gpt-5", **spender):
    """Record one settled call of this session's agent."""
    who = Spender(
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        session_id=session.pk,
        **spender,
    )
    call = PlannedCall(spender=who, provider="openai", model=model, worst_case=D(cost))
    reserve(call)
    settle(
        Charge(
            call_id=call.id, outcome="settled", cost=D(cost), input_tokens=1200, output_tokens=34
        )
    )
    if days_ago:
        when = datetime.now(tz=UTC) - timedelta(days=days_ago)
        ModelCall.objects.filter(pk=call.id).update(created_at=when)
    return call


def test_an_empty_page_explains_itself(browser_client, workspace):
    page = browser_client.get("/usage/").text

    assert "No usage in this period" in page
    assert "$10.00" in page


def test_the_page_shows_balance_spending_and_spender(browser_client, session, owner):
    spend(session, "1.5", user_id=owner.pk)
    page = browser_client.get("/usage/").text

    assert "$8.50" in page
    assert f'/sessions/?agent={session.agent_id}">Tester</a>' in page
    assert "1.2k in · 34 out" in page
    assert 'role="img"' in page


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("model", "openai/gpt-5"),
        ("member", "Olive Owner"),
        ("key", "No key (browser)"),
        ("session", "Talk"),
        ("day", f"{datetime.now(tz=UTC).date()}"),
    ],
)
def test_each_tab_has_its_table(browser_client, agent, owner, by, said):
    session, _ = get_or_create_session(agent=agent, title="Talk")
    spend(session, user_id=owner.pk)

    assert said in browser_client.get(f"/usage/?by={by}").text


def test_the_tools_have_a_table_with_failures_and_durations(browser_client, session):
    now = datetime.now(tz=UTC)
    spend(session)
    run = Run.objects.create(workspace_id=session.workspace_id, session=session)
    for state in ("completed", "error"):
        ToolExecution.objects.create(
            workspace_id=session.workspace_id,
            session=session,
            run=run,
            tool_use_id=f"tu_{state}",
            name="web_fetch",
            input={},
            state=state,
            started_at=now - timedelta(seconds=2),
            finished_at=now,
        )
    page = browser_client.get("/usage/?by=tool").text

    assert "web_fetch" in page
    assert "2.0 s" in page


def test_days_outside_the_range_do_not_count(browser_client, session):
    spend(session, "1.5", days_ago=20)
    today = datetime.now(tz=UTC).date()
    week = browser_client.get(f"/usage/?from={today - timedelta(days=6)}&to={today}").text
    month = browser_client.get("/usage/").text

    assert "No usage in this period" in week
    assert "$1.50" in month


@pytest.mark.parametrize("query", ["?from=x", "?from=2026-02-01&to=2026-01-01", "?by=x&show=x"])
def test_an_invalid_query_falls_back_to_the_default_period(browser_client, session, query):
    spend(session)

    assert browser_client.get(f"/usage/{query}").status_code == 200


def test_the_csv_link_exports_the_shown_table(browser_client, session):
    spend(session)
    page = browser_client.get("/usage/?by=model").text
    link = page.split('href="/api/v1/usage/')[1].split('"')[0].replace("&amp;", "&")
    answer = browser_client.get(f"/api/v1/usage/{link}")

    assert answer.headers["Content-Type"].startswith("text/csv")
    assert "openai/gpt-5,openai/gpt-5,1,1200,34,0,0.5" in answer.text


def test_more_rows_need_no_more_queries(browser_client, workspace, agent, owner):
    def queries(by: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert browser_client.get(f"/usage/?by={by}").status_code == 200
        return len(seen)

    spend(get_or_create_session(agent=agent, title="0")[0])
    browser_client.get("/usage/")
    before = {by: queries(by) for by in ("agent", "session", "model", "day")}
    for number in range(5):
        fields = {"name": f"More {number}", "provider": "demo", "model": "demo"}
        more = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
        session, _ = get_or_create_session(agent=more, title=f"{number}")
        spend(session, model=f"m{number}", days_ago=number)

    assert {by: queries(by) for by in before} == before


def test_sessions_are_shown_in_pages_of_fifty_the_most_expensive_first(browser_client, agent):
    for number in range(51):
        session, _ = get_or_create_session(agent=agent, title=f"Talk {number}.")
        spend(session, f"0.{number + 100}")
    first = browser_client.get("/usage/?by=session").text
    link = first.split('rel="next"')[0].rsplit('href="', 1)[1].split("#")[0].replace("&amp;", "&")
    second = browser_client.get(f"/usage/{link}").text

    assert "Talk 50." in first
    assert "Talk 0." not in first
    assert "Talk 0." in second
    assert "Talk 50." not in second
    assert 'rel="next"' not in second


def test_low_credits_are_announced_on_the_usage_page_and_on_home(
    browser_client, workspace, session
):
    add_credits(workspace.pk, D("-9.5"), kind="adjustment")

    assert "Credits are running low: $0.50" in browser_client.get("/usage/").text
    assert "Credits are running low: $0.50" in browser_client.get("/").text
    add_credits(workspace.pk, D("-0.5"), kind="adjustment")
    assert "You're out of credits" in browser_client.get("/usage/").text


def test_a_viewer_sees_the_usage_and_another_workspace_does_not(
    workspace, session, stranger, foreign_workspace
):
    spend(session, "3.25")
    viewer, other = Client(), Client()
    viewer.force_login(add_member(workspace, "viewer"))
    other.force_login(stranger)

    assert "$3.25" in viewer.get("/usage/").text
    assert "$3.25" not in other.get("/usage/").text


def test_names_are_escaped(browser_client, agent):
    session, _ = get_or_create_session(agent=agent, title="<script>alert(1)</script>")
    spend(session, model='"><img src=x onerror=alert(1)>')

    for by in ("session", "model"):
        page = browser_client.get(f"/usage/?by={by}").text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
