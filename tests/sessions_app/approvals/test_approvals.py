"""Tests of calls that need an approval: they wait without a worker and run once."""

from __future__ import annotations

import pytest

from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue
from sessions_app.models import Run, ToolExecution
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.sessions_app.stage import WORDS, E, call, say

pytestmark = pytest.mark.usefixtures("stage_tools")


def test_a_call_that_needs_approval_parks_the_session_and_holds_no_worker(
    session, principal, script, effects
):
    script([call("ask_first", "x")], WORDS)
    say(session, principal)

    serve(session.pk)

    session.refresh_from_db()
    waiting = ToolExecution.objects.get()
    idle = newest(session, "session.status_idle").payload
    assert (session.status, waiting.state) == ("requires_action", "awaiting_approval")
    assert idle == {"stop_reason": "requires_action", "blocking": [waiting.tool_use_id]}
    assert Run.objects.get().status == "completed"
    assert effects == []


def confirm(session, principal, decision: str, **words):
    call_id = ToolExecution.objects.filter(state="awaiting_approval").earliest("id").tool_use_id
    payload = {"tool_use_id": call_id, "decision": decision, **words}
    return accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=payload)


def test_an_allowed_call_runs_with_the_stored_arguments_and_the_model_is_not_asked_again(
    session, principal, script, effects
):
    provider = script([call("ask_first", "as asked")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow")
    serve(session.pk)

    assert effects == ["as asked"]
    assert len(provider.requests) == 2
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_an_allowed_call_runs_with_edited_arguments(session, principal, script, effects):
    script([call("ask_first", "dangerous")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow", input={"text": "harmless"})
    serve(session.pk)

    assert effects == ["harmless"]


def test_the_model_is_told_about_a_denied_call(session, principal, script, effects):
    provider = script([call("ask_first", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "deny", note="not today")
    serve(session.pk)

    assert effects == []
    assert "not today" in provider.requests[-1].messages[-1].results[0].output


def test_after_one_of_two_answers_the_session_names_the_remaining_call(
    session, principal, script, effects
):
    script([call("ask_first", "1", "a"), call("ask_first", "2", "b")], WORDS)
    say(session, principal)
    serve(session.pk)

    confirm(session, principal, "allow")

    left = ToolExecution.objects.get(state="awaiting_approval").tool_use_id
    assert newest(session, "session.status_idle").payload["blocking"] == [left]
    assert run_queue.claim(session.pk, OWNER) is None
    confirm(session, principal, "allow")
    serve(session.pk)
    assert effects == ["1", "2"]


def test_messages_queue_while_a_call_waits_and_an_interrupt_releases_them(
    session, principal, script, effects
):
    script([call("ask_first", "x")], WORDS)
    say(session, principal)
    serve(session.pk)
    say(session, principal, "next")
    assert run_queue.claim(session.pk, OWNER) is None

    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
    serve(session.pk)

    assert effects == []
    assert ToolExecution.objects.get().state == "cancelled"
    assert newest(session, "agent.message").payload["text"] == "All done."


def test_an_answer_that_comes_before_the_run_has_parked_is_not_lost(
    session, principal, script, monkeypatch, effects
):
    script([call("ask_first", "quick")], WORDS)
    say(session, principal)
    answered: list[object] = []

    def answer_now(name: str) -> None:
        if name == "before_completion" and not answered:
            answered.append(confirm(session, principal, "allow"))

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", answer_now)
    serve(session.pk)

    assert effects == ["quick"]
    assert newest(session, "agent.message").payload["text"] == "All done."
    assert session.runs.get().usage["tool_calls"] == 1
