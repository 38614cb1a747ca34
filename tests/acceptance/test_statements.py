"""Tests how many statements each page and each endpoint sends, and that more rows send no more."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from core.db import TimedCache
from sessions_app import search
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Approval, Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.models import ModelCall, User, Workspace
from tests.acceptance.open_routes import IN_WORKSPACE
from tests.acceptance.owned_routes import OWNED
from tests.acceptance.routes import all_routes
from tests.acceptance.statements import STATEMENTS
from tests.factories import agent, make, numbers, our_models
from tests.statements import recorded_statements

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

FEW, MANY = 3, 30
#: Addresses that are counted besides the routes.
VARIANTS = [
    "/sessions/?q=notes",
    "/sessions/?q=no",
    "/sessions/?errors=1&sort=cost",
    "/palette/?q=no",
    "/usage/?by=session",
    "/usage/?by=tool",
    "/api/v1/sessions/?q=notes",
    "/api/v1/usage/?by=session",
]
#: The ends of routes that stream a file or a log.
STREAMS = ("/stream/", "/export/", "<path>")
#: Models of which a workspace has only a few, so that a page may read each of them.
SINGLE = {"Workspace", "Purse"}


@pytest.fixture(autouse=True)
def nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load values anew that are cached for seconds, so that no count depends on the time."""
    monkeypatch.setattr(TimedCache, "get", lambda self, key: self._load(key))


@pytest.fixture(autouse=True)
def searches_look_at_all_sessions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in one step. The second step, of two statements, is counted in `test_search.py`."""
    monkeypatch.setattr(search, "FIRST_SESSIONS", 10_000)


@pytest.fixture
def session(workspace: Workspace, owner: User) -> Session:
    made, _ = get_or_create_session(agent=agent(workspace), title="Notes", created_by_id=owner.pk)
    return made


def add_rows(workspace: Workspace, session: Session, count: int) -> None:
    """Add so many rows of every model to the workspace, and turns with calls to the session."""
    for model in our_models():
        for _ in range(1 if model.__name__ in SINGLE else count):
            make(model, workspace)
    for _ in range(count):
        add_turn(workspace, session)


def add_turn(workspace: Workspace, session: Session) -> None:
    owned = {"workspace": workspace, "session": session}
    use = f"use-{next(numbers)}"
    call = {"tool_use_id": use, "name": "read"}
    run = Run.objects.create(**owned, status="completed", started_at=session.created_at)
    ToolExecution.objects.create(
        **owned, run=run, tool_use_id=use, name="read", input={}, state="completed"
    )
    ModelCall.objects.create(
        workspace=workspace,
        session_id=session.pk,
        run_id=run.pk,
        provider="demo",
        model="demo",
        reserved=0,
    )
    events: list[tuple[str, dict[str, Any]]] = [
        ("user.message", {"text": "Read the notes."}),
        ("agent.tool_use", {**call, "input": {"path": "notes.md"}}),
        ("agent.tool_result", {**call, "state": "completed", "result": {"text": "ok"}}),
        ("agent.message", {"text": "The notes say so.", "model": "demo"}),
    ]
    append_events(
        session.pk,
        [NewEvent(type=SessionEvent.Type(type), payload=payload) for type, payload in events],
    )


def addresses(workspace: Workspace, session: Session) -> dict[str, str]:
    """Return an address for each route of the workspace, and the variants."""
    made = {maker: maker(workspace) for maker in OWNED.values()}
    found = {}
    for route in all_routes():
        is_known = route.path in {*OWNED, *IN_WORKSPACE}
        if is_known and "get" in route.methods and not route.path.endswith(STREAMS):
            arguments = {"name": "demo", **made.get(OWNED.get(route.path), {})}
            if "session_id" in arguments:
                arguments["session_id"] = session.pk
            found[route.path] = route.at(arguments)
    return found | {address: address for address in VARIANTS}


def statements_of(client: Client, paths: dict[str, str]) -> dict[str, list[str]]:
    """Return the statements of every address that answers with a page or a list."""
    counted = {}
    for route, address in paths.items():
        client.get(address)  # the first request may store what the next one reads
        with recorded_statements() as statements:
            answer = client.get(address)
        if answer.status_code == 200:
            counted[route] = statements
    return counted


def difference(counted: dict[str, list[str]], expected: dict[str, int]) -> str:
    """Describe every route with another number of statements, with its statements."""
    lines = []
    for route in sorted({*counted, *expected}):
        sent, wanted = counted.get(route), expected.get(route)
        if sent is None or len(sent) != wanted:
            lines.append(f"{route}: {None if sent is None else len(sent)}, not {wanted}")
            lines += [f"    {statement[:200]}" for statement in sent or ()]
    return "\n".join(lines)


def test_every_page_and_endpoint_sends_the_listed_number_of_statements_however_many_rows_there_are(
    browser_client: Client, workspace: Workspace, session: Session
):
    add_rows(workspace, session, FEW)
    paths = addresses(workspace, session)
    few = statements_of(browser_client, paths)
    add_rows(workspace, session, MANY - FEW)
    many = statements_of(browser_client, paths)

    listed = difference(few, STATEMENTS)
    grown = difference(many, {route: len(sent) for route, sent in few.items()})

    assert not listed, f"Correct the code, or the table in statements.py:\n{listed}"
    assert not grown, f"These send more statements with more rows:\n{grown}"


def test_a_statement_that_is_added_would_be_noticed(
    browser_client: Client, monkeypatch: pytest.MonkeyPatch
):
    paths = {"/agents/": "/agents/"}
    before = statements_of(browser_client, paths)
    monkeypatch.setattr(
        "agents.pages.agents.summary_of", lambda text: str(Approval.objects.count())
    )

    assert difference(before, {"/agents/": len(before["/agents/"])}) == ""
    assert "approvals" in difference(
        statements_of(browser_client, paths), {"/agents/": len(before["/agents/"])}
    )
