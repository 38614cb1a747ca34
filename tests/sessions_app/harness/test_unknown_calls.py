"""Calls of unknown outcome: a person says what became of them, or has them run again."""

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
def lost(session, principal, script) -> ToolExecution:
    """A call whose worker was lost while it ran; the agent has gone on since."""
    script([call("act", "x")], WORDS)
    say(session, principal)
    serve(session.pk)
    ToolExecution.objects.update(state="unknown", output=None, error="Nobody knows.", attempts=1)
    return ToolExecution.objects.get()


def results(provider, nth: int = -1) -> list[str]:
    messages = provider.requests[nth].messages
    return [result.output for message in messages for result in message.results]


def test_a_retry_runs_it_again_with_the_stored_arguments_and_the_model_is_told(
    session, principal, script, effects, lost
):
    provider = script(WORDS)

    _, run_id = ledger.retry(lost, principal)
    serve(session.pk)

    lost.refresh_from_db()
    assert effects == ["x", "x"]
    assert (lost.state, lost.output, lost.retries, lost.attempts) == ("completed", "did x", 1, 2)
    assert results(provider) == ["did x"]
    last = provider.requests[-1].messages[-1]
    assert (last.role, "the earlier call of act is completed" in last.text) == ("user", True)
    assert Run.objects.get(pk=run_id).status == "completed"


def test_a_retry_is_taken_once(session, principal, script, effects, lost):
    script(WORDS)
    ledger.retry(lost, principal)

    with pytest.raises(Conflict, match="is requested"):
        ledger.retry(lost, principal)
    with pytest.raises(Conflict, match="is requested"):
        ledger.verify(lost, principal, took_effect=True)
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
def test_what_a_person_found_out_is_the_one_result_that_the_model_sees(
    session, principal, script, effects, lost, took_effect, output, state, seen
):
    ledger.verify(lost, principal, took_effect=took_effect, output=output, note="I looked.")
    provider = script(WORDS)
    say(session, principal, "and now?")
    serve(session.pk)

    lost.refresh_from_db()
    assert (lost.state, effects) == (state, ["x"])
    assert results(provider) == [seen]
    event = newest(session, "agent.tool_result")
    assert (event.payload["verified_by"], event.created_by) == ("owner@example.com", principal.user)
    with pytest.raises(Conflict, match=f"is {state}"):
        ledger.verify(lost, principal, took_effect=True)


def test_only_an_unknown_call_is_settled(session, principal, script):
    script([call("act", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    for settle in (ledger.retry, lambda *given: ledger.verify(*given, took_effect=True)):
        with pytest.raises(Conflict, match="is completed"):
            settle(ToolExecution.objects.get(), principal)


@pytest.mark.parametrize("status", ["running", "rescheduling"])
def test_a_session_at_work_is_not_disturbed(session, principal, lost, status):
    Session.objects.filter(pk=session.pk).update(status=status)

    with pytest.raises(SessionBusy):
        ledger.retry(lost, principal)


def test_nothing_runs_in_an_archived_session(session, principal, lost):
    archive(session, None)

    with pytest.raises(SessionEnded):
        ledger.retry(lost, principal)


def test_a_retry_that_is_lost_is_unknown_again(session, principal, script, lost, effects):
    provider = script(WORDS)
    ledger.retry(lost, principal)
    ToolExecution.objects.update(state="running")  # Its worker began it and died.
    serve(session.pk)

    lost.refresh_from_db()
    assert (lost.state, effects) == ("unknown", ["x"])
    assert len(results(provider)) == 1
    script(WORDS)
    ledger.retry(lost, principal)
    serve(session.pk)
    lost.refresh_from_db()
    assert (lost.state, lost.retries) == ("completed", 2)


def test_the_page_tells_of_both(session, principal, script, lost):
    script(WORDS)
    ledger.retry(lost, principal)
    serve(session.pk)

    lines: list[Any] = [
        line for line in build_transcript(newest_window(session)) if line.kind == "call"
    ]
    assert [(one.state, one.rule) for one in lines] == [("completed", "Run again by Olive Owner")]
