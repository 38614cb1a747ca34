"""Tests of outcomes over REST and the command line, and that other workspaces cannot see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app import runtime
from sessions_app.models import Session
from sessions_app.pages.transcript import build_transcript, newest_window
from tests.sessions_app.commands import agent_command, command_error
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import say

SESSIONS = "/api/v1/sessions/"
GOAL = {"statement": "Greet the yard.", "criteria": ['It says "good morning"']}
STORED = {**GOAL, "max_returns": 2}


def test_an_outcome_is_set_changed_and_removed(api, agent):
    made = api.post(SESSIONS, {"agent": str(agent.pk), "outcome": GOAL}, format="json")
    assert made.status_code == 201
    assert (made.json()["outcome"], made.json()["verdict"]) == (STORED, None)
    path = f"{SESSIONS}{made.json()['id']}/"

    changed = api.patch(path, {"outcome": {**GOAL, "max_returns": 0}}, format="json").json()
    assert changed["outcome"]["max_returns"] == 0
    assert api.patch(path, {"title": "Yard"}, format="json").json()["outcome"] is not None
    assert api.patch(path, {"outcome": None}, format="json").json()["outcome"] is None
    assert Session.objects.filter(outcome__isnull=True, title="Yard").exists()


@pytest.mark.parametrize("wrong", [{"max_returns": 9}, {"criteria": "one"}, {"secret": 1}])
def test_an_invalid_outcome_is_a_problem_that_names_its_field(api, agent, session, wrong):
    body = {"agent": str(agent.pk), "outcome": {**GOAL, **wrong}}
    for answer in (
        api.post(SESSIONS, body, format="json"),
        api.patch(f"{SESSIONS}{session.pk}/", {"outcome": body["outcome"]}, format="json"),
    ):
        assert answer.status_code in {400, 422}
        assert f"outcome.{next(iter(wrong))}" in answer.content.decode()


def test_a_session_shows_its_last_verdict_and_the_transcript_shows_all(api, agent, principal):
    session, _ = runtime.get_or_create_session(agent, principal=principal, outcome=GOAL)
    say(session, principal, "say: hello")
    serve(session.pk)

    shown = api.get(f"{SESSIONS}{session.pk}/").json()
    assert (shown["verdict"]["status"], shown["verdict"]["returns"]) == ("met", 1)
    session.refresh_from_db()
    told: list[Any] = build_transcript(newest_window(session))
    notes = [line.text for line in told if line.kind == "note"]
    assert notes == [
        "Outcome not met, sent back 1 of 2: The answer lacks “good morning”.",
        "Outcome met",
    ]


def test_another_workspace_cannot_see_or_change_an_outcome(agent, principal, foreign_api):
    session, _ = runtime.get_or_create_session(agent, principal=principal, outcome=GOAL)

    for answer in (
        foreign_api.get(f"{SESSIONS}{session.pk}/"),
        foreign_api.patch(f"{SESSIONS}{session.pk}/", {"outcome": None}, format="json"),
        foreign_api.post(SESSIONS, {"agent": str(agent.pk), "outcome": GOAL}, format="json"),
    ):
        assert answer.status_code == 404
    session.refresh_from_db()
    assert session.outcome == STORED


def test_the_command_line_sets_an_outcome(agent):
    made = agent_command(
        "session", "create", "--agent", str(agent.pk), "--outcome", json.dumps(GOAL)
    )
    assert Session.objects.get(pk=made).outcome == STORED
    for wrong in ("no json", "[]", '{"statement": ""}'):
        assert command_error("session", "create", "--agent", str(agent.pk), "--outcome", wrong)
