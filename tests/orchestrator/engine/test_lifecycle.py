"""Tests of pause, resume, terminate, restart and restart from a step."""

from __future__ import annotations

import pytest

from core.exceptions import NotFound
from orchestrator.engine.lifecycle import pause, restart, resume, send_event, terminate
from orchestrator.engine.recovery import fire_due, seconds_to_next
from orchestrator.exceptions import WorkflowEnded
from orchestrator.models import WorkflowSignal
from tests.orchestrator.conftest import (
    claim,
    now,
    pass_time,
    serve,
    serve_one,
    states,
    steps,
)

pytestmark = pytest.mark.django_db


def test_pause_lets_a_running_step_finish_and_starts_no_other(define, begin):
    done = []

    def run(self, event, step):
        def first():
            done.append("first")
            pause(made)

        step.do("first", first)
        step.do("second", lambda: done.append("second"))

    define(run)
    made = begin()
    serve()

    assert now(made).status == "paused"
    assert done == ["first"]
    assert states(made) == [("first", "complete", 1)]
    resume(made)
    serve()
    assert done == ["first", "second"]
    assert now(made).status == "complete"


def test_a_paused_workflow_is_not_claimed_and_its_timers_stand_still(define, begin):
    define(lambda self, event, step: step.sleep("nap", 100))
    made = begin()
    serve()
    pass_time(made, 60)
    pause(made)
    pass_time(made, 500)

    assert fire_due() == []
    assert not serve_one()
    assert now(made).status == "paused"


def test_resume_shifts_timers_by_the_time_of_the_pause(define, begin):
    define(lambda self, event, step: step.sleep("nap", 100))
    made = begin()
    serve()
    pass_time(made, 60)
    pause(made)
    pass_time(made, 500)  # The pause started this long ago.
    resume(made)

    assert now(made).status == "waiting"
    assert 39 < seconds_to_next() <= 40
    assert steps(made)[0].wake_at == now(made).wake_at


def test_resume_shifts_a_step_that_waits_for_its_retry(define, begin):
    def fail():
        raise ValueError("no")

    define(lambda self, event, step: step.do("f", fail, delay=100))
    made = begin()
    serve()
    pause(made)
    pass_time(made, 500)
    resume(made)

    assert now(made).status == "waiting"
    assert 98 < seconds_to_next() <= 100


def test_resume_shifts_a_rollback_that_waits_for_its_retry(define, begin):
    tries = []

    def refuse(result):
        tries.append(1)
        raise ValueError("too early")

    def run(self, event, step):
        step.do("book", lambda: 1, rollback=refuse, delay=100)
        raise ValueError("no")

    define(run)
    made = begin()
    serve()
    pause(made)
    pass_time(made, 500)
    resume(made)
    serve()

    assert len(tries) == 1
    assert 98 < seconds_to_next() <= 100


def test_an_event_during_a_pause_is_taken_after_it(define, begin):
    define(lambda self, event, step: step.wait_for_event("e", type="e", timeout=10))
    made = begin()
    serve()
    pause(made)
    pass_time(made, 500)
    send_event(made, "e", "in time, as time stood still")
    assert now(made).status == "paused"
    resume(made)
    serve()

    assert now(made).output == "in time, as time stood still"


def test_a_queued_workflow_can_be_paused_before_it_begins(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    pause(made)
    assert not serve_one()
    resume(made)
    serve()

    assert now(made).status == "complete"


@pytest.mark.django_db(transaction=True)
def test_an_ended_workflow_cannot_be_paused_resumed_or_terminated(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    serve()

    for act in (pause, resume, terminate):
        with pytest.raises(WorkflowEnded):
            act(made)


@pytest.mark.django_db(transaction=True)
def test_terminate_ends_a_running_workflow_at_once_and_fences_its_worker(define, begin):
    done = []

    def run(self, event, step):
        def first():
            done.append("first")
            terminate(made)

        step.do("first", first)
        step.do("second", lambda: done.append("second"))

    define(run)
    made = begin()
    serve()

    assert now(made).status == "terminated"
    assert done == ["first"]
    assert states(made) == [("first", "running", 1)]
    assert not serve_one()


def test_terminate_ends_a_workflow_that_waits(define, begin):
    define(lambda self, event, step: step.sleep("nap", 100))
    made = begin()
    serve()
    terminate(made)
    pass_time(made, 200)

    assert fire_due() == []
    assert now(made).status == "terminated"
    assert now(made).finished_at


def add(done: list[str], name: str) -> int:
    done.append(name)
    return len(done)


def counts(done: list[str]):
    def run(self, event, step):
        for name in ("a", "b", "c"):
            step.do(name, lambda name=name: add(done, name))
        return len(done)

    return run


def test_restart_runs_everything_again_from_the_beginning(define, begin):
    done: list[str] = []
    define(counts(done))
    made = begin()
    send_event(made, "unused", 1)
    serve()
    restart(made)

    assert (now(made).status, now(made).result, now(made).generation) == ("queued", None, 1)
    assert steps(made) == []
    assert not WorkflowSignal.objects.exists()
    serve()
    assert done == ["a", "b", "c"] * 2


def test_restart_from_a_step_keeps_earlier_results(define, begin):
    done: list[str] = []
    define(counts(done))
    made = begin()
    serve()
    before = steps(made)[0].finished_at
    restart(made, from_step="b")
    serve()

    assert done == ["a", "b", "c", "b", "c"]
    assert steps(made)[0].finished_at == before
    assert [one.output for one in steps(made)] == [1, 4, 5]


def test_a_restart_can_start_from_the_nth_use_of_a_name(define, begin):
    done = []
    define(lambda self, event, step: [step.do("s", lambda n=n: done.append(n)) for n in range(3)])
    made = begin()
    serve()
    restart(made, from_step="s", nth=3)
    serve()

    assert done == [0, 1, 2, 2]
    with pytest.raises(NotFound):
        restart(made, from_step="s", nth=4)


@pytest.mark.django_db(transaction=True)
def test_restart_of_a_running_workflow_fences_its_worker(define, begin):
    define(lambda self, event, step: step.do("a", lambda: 1))
    made = begin()
    held = claim()
    restart(made)
    serve_one(held)  # The old holder comes back and may not write.

    assert now(made).status == "queued"
    assert steps(made) == []
    serve()
    assert now(made).status == "complete"


def test_an_errored_workflow_can_be_restarted_from_the_step_that_failed(define, begin):
    works: list[int] = []

    def fragile():
        if not works:
            raise ValueError("not now")
        return "now"

    define(lambda self, event, step: [step.do("a", lambda: 1), step.do("f", fragile, retries=0)])
    made = begin()
    serve()
    assert now(made).status == "errored"
    works.append(1)
    restart(made, from_step="f")
    serve()

    assert now(made).output == [1, "now"]
    assert now(made).error is None
