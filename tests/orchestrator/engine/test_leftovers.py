"""Tests that work started by a workflow ends with it, even when a process dies on the way."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from orchestrator.engine import lifecycle, recovery
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.recovery import fire_due, recover, settle_lost, stop_abandoned
from orchestrator.exceptions import StepFailed
from orchestrator.models import Workflow
from orchestrator.supervisor import duties
from sessions_app.models import Run
from tests.orchestrator.conftest import claim, now, pass_time, serve, states
from tests.orchestrator.engine.test_branches import fork
from tests.orchestrator.engine.test_recovery import lose

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """Ends a process as a SIGKILL does."""


@pytest.fixture
def sleeper(define):
    define(lambda self, event, step: step.sleep("s", 600), name="sleeper")
    return lambda: Workflow.objects.get(name="sleeper")


def killed(*args, **words):
    raise Killed


def test_a_workflow_that_is_being_restarted_does_not_react_to_its_stopped_children(
    define, begin, sleeper, monkeypatch
):
    """The child is stopped, and the old generation does nothing about it."""
    done = []

    def run(self, event, step):
        try:
            step.spawn("child", "sleeper")
        except StepFailed:
            step.do("refund", lambda: done.append("refund"))

    define(run)
    made = begin()
    serve()
    stop = lifecycle.stop_started_work

    def stop_while_workers_work(*args, **words):
        stop(*args, **words)
        settle_lost()
        serve()

    monkeypatch.setattr(lifecycle, "stop_started_work", stop_while_workers_work)
    restart(made)

    assert sleeper().status == "terminated"
    assert done == []
    assert now(made).status == "queued"


def test_a_restart_that_is_killed_leaves_the_workflow_paused(define, begin, sleeper, monkeypatch):
    define(lambda self, event, step: step.spawn("child", "sleeper"))
    made = begin()
    serve()
    monkeypatch.setattr(lifecycle, "stop_started_work", killed)
    with pytest.raises(Killed):
        restart(made)

    assert now(made).status == "paused"
    monkeypatch.undo()
    restart(made)
    assert now(made).status == "queued"


def test_a_restart_from_a_step_leaves_the_children_of_earlier_steps_alone(define, begin, sleeper):
    def run(self, event, step):
        step.spawn("beside", "sleeper", wait=False)
        step.sleep("nap", 60)

    define(run)
    made = begin()
    serve()
    restart(made, from_step="nap")
    assert sleeper().status == "waiting"
    restart(made)
    assert sleeper().status == "terminated"


def test_the_supervisor_stops_the_children_of_an_interrupted_termination(
    define, begin, sleeper, monkeypatch
):
    define(
        lambda self, event, step: [step.spawn("beside", "sleeper", wait=False), step.sleep("n", 9)]
    )
    made = begin()
    serve()
    monkeypatch.setattr(lifecycle, "stop_started_work", killed)
    with pytest.raises(Killed):
        terminate(made)
    monkeypatch.undo()
    assert (now(made).status, sleeper().status) == ("terminated", "waiting")

    assert stop_abandoned() == [made.pk]
    assert sleeper().status == "terminated"
    assert stop_abandoned() == []


def test_the_supervisor_stops_the_agents_of_an_interrupted_termination(
    define, begin, workspace, owner, monkeypatch
):
    fields = {"name": "Writer", "provider": "demo", "model": "demo"}
    create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    define(lambda self, event, step: step.run_session("ask", agent="Writer", message="Go."))
    made = begin()
    serve()
    monkeypatch.setattr(lifecycle, "stop_started_work", killed)
    with pytest.raises(Killed):
        terminate(made)
    monkeypatch.undo()

    assert stop_abandoned() == [made.pk]
    assert Run.objects.get().status == "cancelled"


def test_the_supervisor_stops_what_the_branches_of_a_dead_letter_wait_for(
    define, begin, sleeper, settings
):
    settings.WORKFLOW_MAX_RECOVERIES = 1
    fork(define, {
        "child": lambda step: step.spawn("child", "sleeper"),
        "nap": lambda step: step.sleep("nap", 60),
    })  # fmt: skip
    made = begin()
    serve()
    pass_time(made, 61)
    fire_due()
    lose(claim())
    recover()
    assert now(made).is_dead

    assert stop_abandoned() == [made.pk]
    assert sleeper().status == "terminated"


def test_a_child_without_a_waiting_parent_survives_the_parents_failure(define, begin, sleeper):
    def fail():
        raise ValueError("broken")

    fork(define, {
        "beside": lambda step: step.spawn("beside", "sleeper", wait=False),
        "wrong": lambda step: step.do("wrong", fail, retries=0),
    })  # fmt: skip
    made = begin()
    serve()
    assert now(made).status == "errored"
    assert states(sleeper()) == [("s", "waiting", 1)]

    assert stop_abandoned() == []
    assert sleeper().status == "waiting"


def test_the_supervisor_looks_for_abandoned_work():
    assert recovery.stop_abandoned in [duty.work for duty in duties()]
