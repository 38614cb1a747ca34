"""Tests of outcomes: judged at the end of a run, returned a limited number of times, validated."""

from __future__ import annotations

import json

import pytest

from agents.exceptions import ProviderRejected
from core.exceptions import InvalidFields
from sessions_app.models import Run, SessionEvent
from sessions_app.outcomes.criteria import Outcome, read_verdict
from sessions_app.sessions import fork, get_or_create_session
from tenants.models import ModelCall
from tests.sessions_app.conftest import newest, serve, types
from tests.sessions_app.outcomes.judged import GOAL, goal, grader, verdict, verdicts, words
from tests.sessions_app.stage import WORDS, E, say

__all__ = ["goal", "grader"]
pytestmark = pytest.mark.usefixtures("stage_tools")


def test_an_answer_that_meets_the_outcome_ends_the_run(session, principal, goal):
    goal()
    say(session, principal, "say: Good morning, yard")

    serve(session.pk)

    (judged,) = verdicts(session)
    assert (judged["status"], judged["returned"], judged["returns"]) == ("met", False, 0)
    assert types(session)[-3:] == [E.AGENT_MESSAGE, E.OUTCOME_JUDGED, E.STATUS_IDLE]
    done = Run.objects.get()
    assert (done.status, done.stop_reason) == ("completed", "end_turn")
    assert done.result["text"] == "Good morning, yard"
    assert done.result["outcome"] == "met"
    assert ModelCall.objects.filter(session_id=session.pk, purpose="grade").count() == 1


def test_an_answer_that_does_not_meet_the_outcome_is_returned_within_the_same_run(
    session, principal, goal
):
    goal()
    say(session, principal, "say: hello")

    serve(session.pk)

    first, second = verdicts(session)
    assert (first["status"], first["returned"], first["returns"]) == ("not_met", True, 1)
    assert "good morning" in first["feedback"]
    assert (second["status"], second["returned"]) == ("met", False)
    assert Run.objects.get().result["text"] == "good morning"
    assert types(session).count(E.STATUS_IDLE) == 1


def test_the_agent_is_told_what_is_missing(session, principal, goal, script, grader):
    goal()
    model = script(words("no"), words("good morning"))
    judge = grader(verdict(False), verdict(True))
    say(session, principal)

    serve(session.pk)

    heard = model.requests[1].messages
    assert [m.role for m in heard] == ["user", "assistant", "user"]
    assert 'It says "good morning": Seen.' in heard[-1].text
    assert "Greet." in heard[-1].text
    asked = judge.requests[0].messages[0].text
    assert "person: go" in asked
    assert asked.count("<<<UNTRUSTED") == 2


def test_an_outcome_that_is_never_met_ends_after_the_maximum_of_returns(
    session, principal, goal, script, grader
):
    goal(max_returns=2)
    script(*[words("no")] * 3)
    grader(*[verdict(False)] * 3)
    say(session, principal)

    serve(session.pk)

    assert [v["returned"] for v in verdicts(session)] == [True, True, False]
    done = Run.objects.get()
    assert (done.status, done.stop_reason, done.result["outcome"]) == (
        "completed",
        "end_turn",
        "not_met",
    )


def test_the_next_message_has_its_own_returns(session, principal, goal, script, grader):
    goal(max_returns=1)
    script(*[words("no")] * 4)
    grader(*[verdict(False)] * 4)
    for _ in range(2):
        say(session, principal)
        serve(session.pk)

    assert [v["returned"] for v in verdicts(session)] == [True, False, True, False]


@pytest.mark.parametrize(
    "said",
    [
        words("It is fine."),
        verdict(True, more="fields"),
        words(json.dumps({"met": True, "criteria": [], "feedback": ""})),
        words(json.dumps({"met": False, "criteria": [{"name": "other", "met": False, "why": ""}], "feedback": ""})),
        words(verdict(False)[0].text.replace('"met": false', '"met": true', 1)),
        [ProviderRejected("The grader is gone.")],
    ],
    ids=["prose", "more_fields", "no_criteria", "other_criteria", "contradiction", "fault"],
)  # fmt: skip
def test_an_unclear_verdict_ends_the_run(session, principal, goal, script, grader, said):
    goal()
    script(WORDS)
    grader(said)
    say(session, principal)

    serve(session.pk)

    (judged,) = verdicts(session)
    assert (judged["status"], judged["returned"]) == ("unclear", False)
    assert judged["why"]
    assert Run.objects.get().result["outcome"] == "unclear"


def test_a_grader_that_is_not_configured_gives_an_unclear_verdict(session, principal, goal, script):
    goal(grader={"provider": "gemini", "model": "gemini-2.5-flash"})
    script(WORDS)
    say(session, principal)

    serve(session.pk)

    (judged,) = verdicts(session)
    assert judged["status"] == "unclear"
    assert judged["grader"]["provider"] == "gemini"


def test_a_verdict_in_a_block_of_code_is_read():
    block = f"```json\n{verdict(True)[0].text}\n```"
    assert read_verdict(block, Outcome.model_validate(GOAL)).status == "met"


def test_a_verdict_carries_the_dedupe_key_of_its_answer(session, principal, goal):
    goal()
    say(session, principal, "say: good morning")
    serve(session.pk)

    judged = newest(session, E.OUTCOME_JUDGED)
    assert judged.dedupe_key == f"verdict:{judged.payload['answer_event_id']}"
    assert SessionEvent.objects.get(pk=judged.payload["answer_event_id"]).type == E.AGENT_MESSAGE


def test_a_fork_keeps_the_outcome(session, goal):
    assert fork(goal(), 0, None).outcome["statement"] == GOAL["statement"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"statement": ""}, "outcome.statement"),
        ({"criteria": []}, "outcome.criteria"),
        ({"criteria": ["a", " A "]}, "outcome.criteria"),
        ({"max_returns": 6}, "outcome.max_returns"),
        ({"max_returns": "2"}, "outcome.max_returns"),
        ({"grader": {"provider": "nobody", "model": "m"}}, "outcome.grader.provider"),
        ({"more": 1}, "outcome.more"),
    ],
)
def test_an_invalid_outcome_is_refused_by_field(agent, wrong, field):
    with pytest.raises(InvalidFields) as fault:
        get_or_create_session(agent=agent, outcome={**GOAL, **wrong})
    assert [error["field"] for error in fault.value.errors] == [field]
