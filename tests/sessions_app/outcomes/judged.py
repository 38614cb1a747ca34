"""Fixtures of a session with an outcome and of a scripted grader."""

from __future__ import annotations

import json

import pytest

from agents.providers.base import TextDelta
from sessions_app.harness import model_call
from sessions_app.models import Session
from sessions_app.outcomes.criteria import read_outcome
from tests.fakes import ScriptedProvider
from tests.sessions_app.stage import E

GOAL = {"statement": "Greet the yard.", "criteria": ['It says "good morning"']}


def words(text: str) -> list[TextDelta]:
    return [TextDelta(text=text)]


def verdict(met: bool, **more: object) -> list[TextDelta]:
    criteria = [{"name": GOAL["criteria"][0], "met": met, "why": "Seen."}]
    return words(json.dumps({"met": met, "criteria": criteria, "feedback": "Greet.", **more}))


def verdicts(session: Session) -> list[dict]:
    rows = session.events.filter(type=E.OUTCOME_JUDGED).order_by("seq")
    return [event.payload for event in rows]


@pytest.fixture
def goal(session):
    """Return a function that sets an outcome on the session."""

    def state(**more: object) -> Session:
        session.outcome = read_outcome({**GOAL, **more})
        session.save(update_fields=["outcome"])
        return session

    return state


@pytest.fixture
def grader(monkeypatch):
    def use(*steps) -> ScriptedProvider:
        provider = ScriptedProvider(*steps)
        monkeypatch.setattr(model_call, "provider_for", lambda *_: provider)
        monkeypatch.setattr(model_call, "PAUSES", (0.0,))
        return provider

    return use
