"""Tests of steps that wait for an agent or another workflow."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

from agents.definitions import create_agent
from agents.providers.base import TextDelta, Usage
from core.pg_listen import subscribe
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.recovery import settle_lost
from orchestrator.engine.waits import settle_child, settle_run
from orchestrator.models import Workflow
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import WAKE_CHANNEL
from sessions_app.models import Run, Session
from tests.fakes import ScriptedProvider
from tests.orchestrator.conftest import now, serve, states
from tests.sessions_app.conftest import serve as serve_lane

pytestmark = pytest.mark.django_db


# ── An agent ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def agent(workspace, owner):
    fields = {"name": "Writer", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


def answers(monkeypatch, *texts: str) -> ScriptedProvider:
    said = [[TextDelta(text=text), Usage(input_tokens=1, output_tokens=1)] for text in texts]
    provider = ScriptedProvider(*said)  # type: ignore[arg-type]
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: provider)
    return provider


def works(self, event, step):
    first = step.run_session("draft", agent="Writer", message="Write a line.")
    second = step.run_session("shorter", agent="Writer", message="Shorter.")
    return [first["text"], second["text"], first["session_id"] == second["session_id"]]


def run_agent() -> None:
    """Serve the session's lane and settle the step that waits for its run."""
    run = Run.objects.get(status="queued")
    serve_lane(run.session_id)
    settle_run(run.pk)


def test_a_workflow_holds_no_worker_while_an_agent_does_its_step(define, begin, agent, monkeypatch):
    answers(monkeypatch, "A long line.", "A line.")
    define(works)
    made = begin()
    serve()
    assert (now(made).status, now(made).lease_owner) == ("waiting", None)
    run_agent()
    serve()
    run_agent()
    serve()

    assert now(made).output == ["A long line.", "A line.", True]
    assert states(made) == [("draft", "complete", 1), ("shorter", "complete", 1)]


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_run_notifies_the_workflow_that_waits_for_it(
    define, begin, agent, monkeypatch
):
    """Without polling: a trigger of the run queue notifies with the commit that ends the run."""
    answers(monkeypatch, "x")
    define(works)
    begin()
    serve()
    run = Run.objects.get(status="queued")
    heard: SimpleQueue[str] = SimpleQueue()
    with subscribe(WAKE_CHANNEL, heard.put):
        serve_lane(run.session_id)

        assert heard.get(timeout=30) == f"workflow-run:{run.pk}"


def test_the_supervisor_makes_up_for_a_lost_wake_up(define, begin, agent, monkeypatch):
    answers(monkeypatch, "x")
    define(works)
    made = begin()
    serve()
    run = Run.objects.get(status="queued")
    assert settle_run(run.pk) is None, "the run is not over"
    assert settle_lost() == []
    serve_lane(run.session_id)

    assert settle_lost() == [made.pk]


def test_a_run_that_fails_fails_the_step_with_its_reason(define, begin, agent):
    define(works)
    made = begin()
    serve()
    session = Session.objects.get()
    run_queue.claim(session.pk, made.pk)
    run_queue.stop(session.pk, note="enough")
    settle_run(Run.objects.get().pk)
    serve()

    assert now(made).status == "errored"
    assert now(made).error["code"] == "run_cancelled"


def test_an_unknown_agent_fails_the_workflow(define, begin):
    define(works)
    made = begin()
    serve()

    assert now(made).status == "errored"
    assert not Session.objects.exists()


def test_terminating_stops_the_agent_of_the_workflow(define, begin, agent):
    define(works)
    made = begin()
    serve()
    terminate(made)

    assert Run.objects.get().status == "cancelled"


def test_a_restart_asks_the_agent_again(define, begin, agent, monkeypatch):
    answers(monkeypatch, "one", "two", "three", "four")
    define(works)
    made = begin()
    for _ in range(2):
        serve()
        run_agent()
    serve()
    restart(made, from_step="shorter")
    serve()
    run_agent()
    serve()

    assert now(made).output == ["one", "three", True]


# ── Another workflow ─────────────────────────────────────────────────────────────────────────────


def test_a_child_workflow_starts_once_and_its_result_is_returned(define, begin):
    define(lambda self, event, step: event.payload["n"] * 2, name="child")
    define(lambda self, event, step: step.spawn("twice", "child", {"n": 21}))
    made = begin()
    serve(1)
    child = Workflow.objects.get(name="child")
    assert child.parent_id == made.pk
    serve(1)
    assert settle_child(child.pk) == made.pk
    serve()

    assert now(made).output == 42
    assert Workflow.objects.count() == 2


def test_a_child_that_fails_fails_the_step_with_its_reason(define, begin):
    def fail(self, event, step):
        raise ValueError("child trouble")

    define(fail, name="child")
    define(lambda self, event, step: step.spawn("c", "child"))
    made = begin()
    serve()
    settle_lost()
    serve()

    assert now(made).error["code"] == "child_errored"
    assert "child trouble" in now(made).error["message"]


def test_children_without_a_waiting_parent_start_once(define, begin):
    define(lambda self, event, step: 1, name="child")
    define(lambda self, event, step: [step.spawn("c", "child", wait=False) for _ in range(3)])
    made = begin()
    serve()

    ids = {str(one.pk) for one in Workflow.objects.filter(name="child")}
    assert set(now(made).output) == ids
    assert len(ids) == 3


def test_terminating_a_workflow_terminates_its_children(define, begin):
    define(lambda self, event, step: step.sleep("s", 100), name="child")
    define(lambda self, event, step: step.spawn("c", "child"))
    made = begin()
    serve()
    terminate(made)

    assert Workflow.objects.get(name="child").status == "terminated"
