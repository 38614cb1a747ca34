"""Tests of `step.do`: run once, remembered, retried, bounded."""

from __future__ import annotations

import pytest

from orchestrator.engine.recovery import fire_due
from orchestrator.exceptions import NonRetryableError, StepFailed
from orchestrator.models import WorkflowEvent
from tests.orchestrator.conftest import (
    attempts,
    claim,
    now,
    pass_time,
    serve,
    serve_one,
    states,
    steps,
)

pytestmark = pytest.mark.django_db


def test_a_workflow_runs_its_steps_and_returns(define, begin):
    def run(self, event, step):
        first = step.do("add", lambda: event.payload["n"] + 1)
        return {"sum": step.do("double", lambda: first * 2)}

    define(run)
    made = begin({"n": 20})

    assert serve() == 1
    assert now(made).status == "complete"
    assert now(made).output == {"sum": 42}
    assert states(made) == [("add", "complete", 1), ("double", "complete", 1)]


def test_a_step_that_is_complete_is_not_run_again(define, begin):
    done = []

    def run(self, event, step):
        step.do("once", lambda: done.append("x"))
        step.sleep("rest", 60)
        return step.do("last", lambda: len(done))

    define(run)
    made = begin()
    serve()
    assert now(made).status == "waiting"
    pass_time(made, 61)
    fire_due()
    serve()

    assert now(made).output == 1
    assert done == ["x"]


def test_a_step_is_identified_by_its_name_and_nth_use(define, begin):
    def run(self, event, step):
        return [step.do("same", lambda n=n: n) for n in range(3)]

    define(run)
    made = begin()
    serve()

    assert now(made).output == [0, 1, 2]
    assert [(one.name, one.nth) for one in steps(made)] == [("same", 1), ("same", 2), ("same", 3)]


def test_a_step_returns_the_same_value_the_first_time_and_at_a_replay(define, begin):
    seen = []

    def run(self, event, step):
        seen.append(step.do("facts", lambda: {"zebra": (1, 2), "a": 1.5}))
        step.sleep("rest", 1)
        return seen[-1]

    define(run)
    made = begin()
    serve()
    pass_time(made, 2)
    fire_due()
    serve()

    assert seen == [{"zebra": [1, 2], "a": 1.5}] * 2
    assert [list(one) for one in seen] == [["zebra", "a"]] * 2
    assert now(made).output == seen[0]


def test_an_attempt_is_recorded_before_the_body_runs(define, begin):
    made = None
    seen: list[object] = []

    def look():
        seen.append(states(made))
        seen.append(attempts(made))

    define(lambda self, event, step: step.do("look", look))
    made = begin()
    serve()

    assert seen == [[("look", "running", 1)], [(1, "running")]]


def test_a_failed_step_is_retried_after_its_delay_and_holds_no_worker(define, begin):
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "done"

    define(lambda self, event, step: step.do("flaky", flaky, retries=2, delay=10))
    made = begin()
    serve()
    assert now(made).status == "waiting"
    assert states(made) == [("flaky", "retrying", 1)]
    assert not serve_one()
    for seconds in (10, 20):
        pass_time(made, seconds - 1)
        assert fire_due() == []
        pass_time(made, 1)
        assert fire_due() == [made.pk]
        serve()

    assert now(made).output == "done"
    assert attempts(made) == [
        (1, "errored"),
        (2, "errored"),
        (3, "complete"),
    ]
    assert steps(made)[0].failures.first().error["message"] == "not yet"


def test_retries_without_a_delay_follow_at_once(define, begin):
    tries = []

    def flaky():
        tries.append(1)
        if len(tries) < 4:
            raise ValueError("no")
        return len(tries)

    define(lambda self, event, step: step.do("flaky", flaky, delay=0))
    made = begin()

    assert serve() == 1
    assert now(made).output == 4
    assert states(made) == [("flaky", "complete", 4)]


def test_a_step_whose_retries_are_used_up_fails_the_workflow(define, begin):
    def fail():
        raise ValueError("broken for good")

    define(lambda self, event, step: step.do("fail", fail, retries=1, delay=0))
    made = begin()
    serve()

    assert now(made).status == "errored"
    assert now(made).error["message"] == "broken for good"
    assert now(made).error["step"] == "fail"
    assert states(made) == [("fail", "errored", 2)]


def test_a_workflow_can_catch_a_failed_step_and_behaves_the_same_at_a_replay(define, begin):
    caught = []

    def fail():
        raise ValueError("no")

    def run(self, event, step):
        try:
            step.do("fail", fail, retries=0)
        except StepFailed as fault:
            caught.append(fault.detail)
        step.sleep("rest", 5)
        return step.do("plan b", lambda: "b")

    define(run)
    made = begin()
    serve()
    pass_time(made, 6)
    fire_due()
    serve()

    assert now(made).output == "b"
    assert caught == ["no", "no"]


def test_a_non_retryable_error_is_not_retried(define, begin):
    tries = []

    def fail():
        tries.append(1)
        raise NonRetryableError("The card is stolen.")

    define(lambda self, event, step: step.do("charge", fail, retries=5, delay=0))
    made = begin()
    serve()

    assert tries == [1]
    assert now(made).error["message"] == "The card is stolen."


def test_the_log_of_a_workflow_has_no_gaps_and_contains_each_step(define, begin):
    define(lambda self, event, step: step.do("one", lambda: 1))
    made = begin()
    serve()

    events = list(WorkflowEvent.objects.filter(workflow=made).order_by("seq"))
    assert [one.seq for one in events] == [*range(1, now(made).last_seq + 1)]
    assert [(one.type, one.payload["status"]) for one in events] == [
        ("status", "queued"),
        ("status", "running"),
        ("step", "running"),
        ("step", "complete"),
        ("status", "complete"),
    ]


def test_the_number_of_steps_is_limited(define, begin, monkeypatch):
    monkeypatch.setattr("orchestrator.engine.steps.MAX_STEPS", 3)
    define(lambda self, event, step: [step.do("s", lambda: 1) for _ in range(4)])
    made = begin()
    serve()

    assert now(made).error["code"] == "limit_reached"


def test_a_held_workflow_cannot_be_claimed(define, begin):
    define(lambda self, event, step: 1)
    begin()

    assert claim() is not None
    assert claim() is None
