"""Tests that a run which lost its worker continues from the log and repeats no effect."""

from __future__ import annotations

import pytest

from agents.definitions import change_agent
from core.ids import uuid7
from sessions_app.lanes import recovery, run_queue
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.sessions import archive
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import WORDS, E, call, say

pytestmark = pytest.mark.usefixtures("stage_tools")


def lose(monkeypatch, at: str):
    """End the worker at this crash point: it writes nothing after it."""

    class Gone(BaseException):
        pass

    def vanish(name: str) -> None:
        if name == at:
            raise Gone

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", vanish)
    return Gone


def recover(session: Session, monkeypatch) -> None:
    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", lambda name: None)
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    run_queue.reap()
    serve(session.pk)


@pytest.mark.parametrize(
    "point", ["after_claim", "before_model_call", "after_model_call", "before_completion"]
)
def test_a_run_lost_at_any_point_is_answered_once(session, principal, script, monkeypatch, point):
    script(WORDS, WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, point)):
        serve(session.pk)

    recover(session, monkeypatch)

    assert session.events.filter(type=E.AGENT_MESSAGE).count() == 1
    assert Run.objects.get().status == "completed"


def test_a_call_that_was_not_started_runs_after_the_crash(
    session, principal, script, monkeypatch, effects
):
    script([call("act", "once")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "after_tool_use")):
        serve(session.pk)

    recover(session, monkeypatch)

    assert effects == ["once"]
    assert ToolExecution.objects.get().state == "completed"


def test_processes_of_the_lost_worker_are_killed_before_the_run_continues(
    session, principal, script, monkeypatch, effects
):
    def kill(session_id):
        killed.append((session_id, list(effects)))

    killed: list[tuple[object, list[str]]] = []
    monkeypatch.setattr("sessions_app.harness.loop.kill_leftovers", kill)
    script([call("act", "once")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "after_tool_use")):
        serve(session.pk)
    assert killed == []

    recover(session, monkeypatch)

    assert killed == [(session.pk, [])]
    assert effects == ["once"]


def test_a_started_call_with_an_effect_becomes_unknown_and_is_not_repeated(
    session, principal, script, monkeypatch, effects
):
    provider = script([call("act", "once")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "before_tool_result")):
        serve(session.pk)
    assert effects == ["once"]

    recover(session, monkeypatch)

    assert effects == ["once"]
    assert ToolExecution.objects.get().state == "unknown"
    told = provider.requests[-1].messages[-1].results[0]
    assert told.is_error
    assert "not known" in told.output


def test_a_started_call_that_only_reads_is_repeated(session, principal, script, monkeypatch):
    script([call("look", "x")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "before_tool_result")):
        serve(session.pk)

    recover(session, monkeypatch)

    execution = ToolExecution.objects.get()
    assert (execution.state, execution.attempts) == ("completed", 2)


def test_a_repeated_call_counts_once(session, principal, script, agent, monkeypatch):
    change_agent(agent, {"limits": {"max_tool_calls": 1}})
    session.agent_version = agent.versions.latest("number")
    session.save()
    script([call("look", "x")], WORDS)
    say(session, principal)
    with pytest.raises(lose(monkeypatch, "before_tool_result")):
        serve(session.pk)

    recover(session, monkeypatch)

    assert ToolExecution.objects.get().state == "completed"
    assert Run.objects.get().usage["tool_calls"] == 1


def test_a_fenced_worker_writes_no_event_ledger_or_result(session, principal, script, monkeypatch):
    script([call("act", "x")], WORDS)
    say(session, principal)
    before: list[int] = []

    def take_over(name: str) -> None:
        if name == "before_tool_result":
            Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
            run_queue.reap()
            before.append(session.events.count())

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", take_over)
    serve(session.pk)

    assert session.events.count() == before[0]
    assert ToolExecution.objects.get().state == "running"


def test_a_stale_worker_starts_no_call(session, principal, script, monkeypatch, effects):
    script([call("act", "x")], WORDS)
    say(session, principal)

    def take_over(name: str) -> None:
        if name == "after_tool_use":
            Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
            run_queue.reap()

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", take_over)
    serve(session.pk)

    assert effects == []
    assert ToolExecution.objects.get().state == "requested"


def test_a_call_that_was_cancelled_meanwhile_is_not_started(
    session, principal, script, monkeypatch, effects
):
    script([call("act", "x")], WORDS)
    say(session, principal)

    def end_it(name: str) -> None:
        if name == "after_tool_use":
            ToolExecution.objects.update(state="cancelled")

    monkeypatch.setattr("sessions_app.harness.crash_points.on_reach", end_it)
    serve(session.pk)

    assert effects == []
    assert ToolExecution.objects.get().state == "cancelled"


def test_sandboxes_are_kept_for_sessions_that_exist_and_are_not_archived(session, owner):
    missing = uuid7()
    assert recovery.living_sessions([session.pk, missing]) == {session.pk}

    archive(session, owner.pk)
    assert recovery.living_sessions([session.pk, missing]) == set()
