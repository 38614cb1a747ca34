"""Tests of calls with an unknown outcome, which a person verifies or runs again."""

from __future__ import annotations

from typing import Any

import pytest

from core.exceptions import Conflict
from sessions_app import ledger
from sessions_app.exceptions import SessionBusy, SessionEnded
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.pages.transcript import build_transcript, newest_window
from sessions_app.sessions import archive
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, call, say

pytestmark = pytest.mark.usefixtures("stage_tools")


@pytest.fixture
def unknown_call(session, principal, script) -> ToolExecution:
    """Return a call whose worker was lost while it ran; the agent has continued since."""
    script([call("act", "x")], WORDS)
    say(session, principal)
    serve(session.pk)
    ToolExecution.objects.update(state="unknown", output=None, error="Nobody knows.", attempts=1)
    return ToolExecution.objects.get()


def results(provider, nth: int = -1) -> list[str]:
    messages = provider.requests[nth].messages
    return [result.output for message in messages for result in message.results]


def test_a_retry_runs_with_the_stored_arguments_and_the_model_is_told(
    session, principal, script, effects, unknown_call
):
    provider = script(WORDS)

    _, run_id = ledger.retry(unknown_call, principal)
    serve(session.pk)

    unknown_call.refresh_from_db()
    assert effects == ["x", "x"]
    assert (
        unknown_call.state,
        unknown_call.output,
        unknown_call.retries,
        unknown_call.attempts,
    ) == ("completed", "did x", 1, 2)
    assert results(provider) == ["did x"]
    last = provider.requests[-1].messages[-1]
    assert (last.role, "the earlier call of act is completed" in last.text) == ("user", True)
    assert Run.objects.get(pk=run_id).status == "completed"


def test_a_retry_is_accepted_once(session, principal, script, effects, unknown_call):
    script(WORDS)
    ledger.retry(unknown_call, principal)

    with pytest.raises(Conflict, match="is requested"):
        ledger.retry(unknown_call, principal)
    with pytest.raises(Conflict, match="is requested"):
        ledger.verify(unknown_call, principal, took_effect=True)
    serve(session.pk)

    assert effects == ["x", "x"]


@pytest.mark.parametrize(
    ("took_effect", "output", "state", "seen"),
    [
        (True, "one mail", "completed", "one mail"),
        (True, None, "completed", "It took effect. I looked."),
        (False, None, "error", "It did not take effect. I looked."),
    ],
)
def test_the_verified_outcome_is_the_only_result_that_the_model_sees(
    session, principal, script, effects, unknown_call, took_effect, output, state, seen
):
    ledger.verify(unknown_call, principal, took_effect=took_effect, output=output, note="I looked.")
    provider = script(WORDS)
    say(session, principal, "and now?")
    serve(session.pk)

    unknown_call.refresh_from_db()
    assert (unknown_call.state, effects) == (state, ["x"])
    assert results(provider) == [seen]
    event = newest(session, "agent.tool_result")
    assert (event.payload["verified_by"], event.created_by) == ("owner@example.com", principal.user)
    with pytest.raises(Conflict, match=f"is {state}"):
        ledger.verify(unknown_call, principal, took_effect=True)


def test_only_an_unknown_call_can_be_retried_or_verified(session, principal, script):
    script([call("act", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    for settle in (ledger.retry, lambda *given: ledger.verify(*given, took_effect=True)):
        with pytest.raises(Conflict, match="is completed"):
            settle(ToolExecution.objects.get(), principal)


@pytest.mark.parametrize("status", ["running", "rescheduling"])
def test_a_call_of_a_busy_session_cannot_be_retried(session, principal, unknown_call, status):
    Session.objects.filter(pk=session.pk).update(status=status)

    with pytest.raises(SessionBusy):
        ledger.retry(unknown_call, principal)


def test_a_call_of_an_archived_session_cannot_be_retried(session, principal, unknown_call):
    archive(session, None)

    with pytest.raises(SessionEnded):
        ledger.retry(unknown_call, principal)


def test_a_retry_that_is_lost_is_unknown_again(session, principal, script, unknown_call, effects):
    provider = script(WORDS)
    ledger.retry(unknown_call, principal)
    ToolExecution.objects.update(state="running")  # Its worker started it and died.
    serve(session.pk)

    unknown_call.refresh_from_db()
    assert (unknown_call.state, effects) == ("unknown", ["x"])
    assert len(results(provider)) == 1
    script(WORDS)
    ledger.retry(unknown_call, principal)
    serve(session.pk)
    unknown_call.refresh_from_db()
    assert (unknown_call.state, unknown_call.retries) == ("completed", 2)


def test_the_transcript_shows_a_retried_call_once_with_the_name_of_the_person(
    session, principal, script, unknown_call
):
    script(WORDS)
    ledger.retry(unknown_call, principal)
    serve(session.pk)

    lines: list[Any] = [
        line for line in build_transcript(newest_window(session)) if line.kind == "call"
    ]
    assert [(one.state, one.rule) for one in lines] == [("completed", "Run again by Olive Owner")]
