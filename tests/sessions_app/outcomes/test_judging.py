"""Tests that kills, waits, limits and empty budgets neither repeat nor lose a verdict."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pytest

from agents.definitions import change_agent
from agents.model_catalog import set_price
from agents.providers.base import Usage
from sessions_app.accept import accept_event
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Run, Session
from sessions_app.outcomes.judging import count_returns
from sessions_app.sessions import retry_run
from tenants.billing.credits import set_budget
from tests.sessions_app.conftest import OWNER, newest, serve, types
from tests.sessions_app.outcomes.judged import goal, grader, verdict, verdicts, words
from tests.sessions_app.stage import E, call, say

__all__ = ["goal", "grader"]
pytestmark = pytest.mark.usefixtures("stage_tools")


def test_a_run_killed_before_its_verdict_judges_the_stored_answer(
    session, principal, goal, script, grader
):
    goal()
    model = script(words("good morning"), words("another answer"))
    grader([killed], verdict(True))
    say(session, principal)

    crash(session)
    assert types(session)[-1] == E.AGENT_MESSAGE
    serve_again(session)

    assert len(model.requests) == 1
    assert [v["status"] for v in verdicts(session)] == ["met"]
    assert types(session).count(E.AGENT_MESSAGE) == 1
    assert Run.objects.get().result["text"] == "good morning"


def test_a_run_killed_after_a_return_does_not_lose_count(session, principal, goal, script, grader):
    goal(max_returns=1)
    script(words("no"), [killed], words("still no"))
    grader(verdict(False), verdict(False))
    say(session, principal)

    crash(session)
    assert count_returns(Run.objects.get().pk) == 1
    serve_again(session)

    assert [v["returned"] for v in verdicts(session)] == [True, False]
    assert Run.objects.get().stop_reason == "end_turn"


def killed() -> None:
    raise KeyboardInterrupt


def crash(session: Session) -> None:
    claim = run_queue.claim(session.pk, OWNER)
    with pytest.raises(KeyboardInterrupt):
        run(claim, OWNER, StopSignal())


def serve_again(session: Session) -> None:
    held = Run.objects.get(session=session, status="running")
    claim = run_queue.Claim(session_id=session.pk, run_id=held.pk, epoch=held.epoch)
    run_queue.release(claim, reason="lost", lost=True)
    serve(session.pk)


def test_a_turn_that_waited_for_a_person_keeps_its_count(session, principal, goal, script, grader):
    goal(max_returns=1)
    script(words("no"), [call("ask_first", "x")], words("no again"))
    grader(verdict(False), verdict(False))
    say(session, principal)
    serve(session.pk)
    asked = session.executions.get()
    accept_event(
        principal,
        session.pk,
        type=E.USER_TOOL_CONFIRMATION,
        payload={"tool_use_id": asked.tool_use_id, "decision": "allow"},
    )
    serve(session.pk)

    assert [v["returned"] for v in verdicts(session)] == [True, False]


def test_returns_end_at_the_limit_of_the_run(
    session, principal, goal, script, grader, agent, owner
):
    change_agent(agent, {"limits": {"max_model_calls": 2}}, by=owner)
    agent.refresh_from_db()
    session.agent_version = agent.current
    session.save(update_fields=["agent_version"])
    goal(max_returns=5)
    script(*[words("no")] * 3)
    grader(*[verdict(False)] * 3)
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().stop_reason == "step_limit"
    assert len(verdicts(session)) == 2


def test_a_run_without_money_for_its_grader_stops_and_is_judged_when_retried(
    session, principal, goal, script, workspace
):
    set_price(
        workspace.pk,
        provider="demo",
        model="dear",
        input_price=Decimal(100),
        output_price=Decimal(100),
    )
    goal(grader={"provider": "demo", "model": "dear"})
    model = script([*words("good morning"), Usage(input_tokens=1, output_tokens=1)])
    budget = {"workspace_id": workspace.pk, "kind": "session", "owner_id": session.pk}
    set_budget(**budget, ceiling=Decimal("0.01"))
    say(session, principal)

    serve(session.pk)

    stopped = Run.objects.get()
    assert (stopped.status, stopped.stop_reason) == ("failed", "budget_reached")
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "good morning"
    assert verdicts(session) == []

    set_budget(**budget, ceiling=Decimal(100))
    retry_run(stopped)
    serve(session.pk)

    assert [v["status"] for v in verdicts(session)] == ["met"]
    assert len(model.requests) == 1


def test_a_message_steered_in_during_grading_is_answered(session, principal, goal, script, grader):
    goal()
    script(words("good morning"), words("good morning again"))
    interjects = partial(say, session, principal, "and more", on_busy="steer")
    grader([interjects, *verdict(True)], verdict(True))
    say(session, principal)

    serve(session.pk)

    assert Run.objects.get().result["text"] == "good morning again"
    assert len(verdicts(session)) == 2
