"""Tests of pauses, lost workers, late writes and events that cross each other."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from core.exceptions import StaleEpoch
from orchestrator.engine import store
from orchestrator.engine.lifecycle import pause, resume, send_event, terminate
from orchestrator.engine.recovery import fire_due, recover
from orchestrator.exceptions import WaitTimedOut
from tests.orchestrator.conftest import claim, now, pass_time, serve, serve_one, states, steps
from tests.orchestrator.engine.test_branches import fork
from tests.orchestrator.engine.test_recovery import begun, lose, overdue

pytestmark = pytest.mark.django_db


def reap(held: store.WorkflowClaim) -> None:
    lose(held)
    assert recover().reaped == [held.id]


def run_out(held: store.WorkflowClaim) -> None:
    overdue(held)
    assert recover().overdue == [held.id]


@pytest.mark.parametrize("end", [reap, run_out, lambda held: store.release(held, "shutdown")])
def test_a_pause_requested_from_a_lost_worker_still_takes_effect(define, begin, end):
    done = []
    define(lambda self, event, step: step.do("a", lambda: done.append(1), delay=0))
    made = begin()
    held = claim()
    begun(held)
    pause(made)
    end(held)

    assert now(made).status == "paused"
    assert not serve_one()
    resume(made)
    serve()
    assert (now(made).status, done) == ("complete", [1])


def test_an_attempt_that_has_ended_cannot_end_the_next_one(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    held = claim()
    begun(held)
    failed = {"position": 0, "attempt": 1, "status": "retrying", "retry_in": 0}
    again = {"id": uuid4(), "position": 0, "name": "a", "nth": 1, "kind": "do", "attempt": 2}
    store.advance(held, ended=failed, begun=again)
    late = {"position": 0, "attempt": 1, "status": "complete"}

    store.advance(held, ended=late, outcome='"late"')
    assert states(made) == [("a", "running", 2)]
    following = {"id": uuid4(), "position": 1, "name": "b", "nth": 1, "timeout": 60}
    with pytest.raises(StaleEpoch):
        store.advance_quickly(held, late, '"late"', following)


def test_a_stale_worker_writes_nothing_by_the_fast_path_either(define, begin):
    define(lambda self, event, step: [step.do("a", lambda: 1), step.do("b", lambda: 2)])
    made = begin()
    old = claim()
    begun(old)
    reap(old)
    begun(claim(), attempt=2)
    before = now(made).last_seq
    following = {"id": uuid4(), "position": 1, "name": "b", "nth": 1, "timeout": 60}

    assert not store.advance_quickly(old, {"position": 0, "attempt": 2}, '"stale"', following)
    assert states(made) == [("a", "running", 2)]
    assert now(made).last_seq == before


def test_progress_by_the_fast_path_resets_the_number_of_losses(define, begin, settings):
    settings.WORKFLOW_MAX_RECOVERIES = 2
    define(lambda self, event, step: [step.do("a", lambda: 1), step.do("b", lambda: 2)])
    made = begin()
    reap(claim())
    held = claim()
    begun(held)
    following = {"id": uuid4(), "position": 1, "name": "b", "nth": 1, "timeout": 60}
    assert store.advance_quickly(held, {"position": 0, "attempt": 1}, "1", following)
    reap(held)
    serve()

    assert now(made).output == [1, 2]


def test_every_attempt_has_the_timeout_of_its_own_step(define, begin):
    """The first step starts by the slow path, the next one by the fast path."""
    given = []

    def run(self, event, step):
        for name, seconds in (("a", 1_000), ("b", 5_000), ("c", None)):
            step.do(name, lambda: given.append(now(made).deadline), timeout=seconds)

    define(run)
    made = begin()
    serve()

    first, second, third = given
    assert timedelta(seconds=3_000) < second - first
    assert third is None


def test_a_result_for_a_step_of_an_ended_workflow_changes_nothing(define, begin):
    define(lambda self, event, step: step.wait_for_event("go", type="go"))
    made = begin()
    serve()
    terminate(made)

    assert not store.settle(made.pk, 0, "complete", result=1)
    assert states(made) == [("go", "waiting", 1)]
    assert now(made).status == "terminated"


def test_a_waiting_step_is_settled_once(define, begin):
    define(lambda self, event, step: step.wait_for_event("go", type="go"))
    made = begin()
    serve()

    assert store.settle(made.pk, 0, "complete", result="first")
    assert not store.settle(made.pk, 0, "complete", result="second")
    serve()
    assert now(made).output == "first"


# ── Events and branches ──────────────────────────────────────────────────────────────────────────


def wait_for(name, seconds):
    def act(step):
        try:
            return step.wait_for_event(name, type="go", timeout=seconds)
        except WaitTimedOut:
            return "too late"

    return act


def test_a_branch_that_timed_out_leaves_the_event_to_the_next_even_before_its_timer_has_fired(
    define, begin
):
    fork(define, {"a": wait_for("a1", 60), "b": wait_for("b1", 600)})
    made = begin()
    serve()
    pass_time(made, 61)
    send_event(now(made), "go", 7)
    serve()

    assert [(one.status, one.output) for one in steps(made)] == [
        ("errored", None),
        ("complete", 7),
    ]
    assert now(made).status == "complete"


def test_the_timeout_of_a_branch_stands_still_during_a_pause_and_it_gets_its_event(define, begin):
    fork(define, {"a": wait_for("a1", 60), "b": wait_for("b1", 600)})
    made = begin()
    serve()
    pause(made)
    pass_time(made, 61)
    send_event(now(made), "go", 7)
    resume(made)
    serve()

    assert states(made)[0] == ("a1", "complete", 1)
    assert steps(made)[0].output == 7
    assert fire_due() == []
