"""Tests that branches wait at the same time and that a crash repeats nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.engine import store
from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.lifecycle import pause, resume, send_event
from orchestrator.engine.recovery import fire_due, recover, settle_lost
from orchestrator.engine.waits import settle_child
from orchestrator.exceptions import WorkflowRejected
from orchestrator.models import Workflow
from sessions_app.harness import crash_points
from tests.orchestrator.conftest import claim, now, pass_time, serve, serve_one, states, steps
from tests.orchestrator.engine.test_recovery import lose, overdue

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """Ends a worker as a SIGKILL does."""


def dies_at(point, times=1):
    seen = []

    def reach(name):
        seen.append(name)
        if seen.count(point) == times:
            raise Killed

    return reach


def fork(define, acts, after=lambda step: None, **words):
    """Define a workflow whose branches, by name, run these functions of `step`."""

    def run(self, event, step):
        branches = step.branches()
        for name, act in acts.items():
            branches.run(name, lambda act=act: act(step))
        branches.wait()
        return after(step)

    define(run, **words)


def test_two_sleeps_take_as_long_as_the_longer_one(define, begin):
    done = []
    fork(define, {
        "a": lambda step: (step.sleep("a1", 60), step.do("a2", lambda: done.append("a"))),
        "b": lambda step: (step.sleep("b1", 60), step.do("b2", lambda: done.append("b"))),
    }, after=lambda step: step.do("join", lambda: done.append("join")))  # fmt: skip
    made = begin()
    serve()

    assert [(one.name, one.status) for one in steps(made)] == [("a1", "waiting"), ("b1", "waiting")]
    assert now(made).status == "waiting"
    pass_time(made, 61)
    assert fire_due() == [made.pk]
    serve()

    assert done == ["a", "b", "join"]
    assert now(made).status == "complete"


def test_the_shorter_branch_goes_on_while_the_longer_waits(define, begin):
    done = []
    fork(define, {
        "slow": lambda step: (step.sleep("s1", 600), step.do("s2", lambda: done.append("slow"))),
        "fast": lambda step: (step.sleep("f1", 60), step.do("f2", lambda: done.append("fast"))),
    })  # fmt: skip
    made = begin()
    serve()
    pass_time(made, 61)
    fire_due()
    serve()

    assert done == ["fast"]
    assert now(made).wake_at == steps(made)[0].wake_at
    pass_time(made, 600)
    fire_due()
    serve()
    assert done == ["fast", "slow"]


def test_branches_wait_for_a_person_an_event_a_child_and_a_timer_at_once(define, begin, principal):
    define(lambda self, event, step: "child", name="child")
    fork(define, {
        "person": lambda step: step.wait_for_approval("ask", title="Go?"),
        "event": lambda step: step.wait_for_event("paid", type="paid"),
        "child": lambda step: step.spawn("spawn", "child"),
        "time": lambda step: step.sleep("nap", 60),
    })  # fmt: skip
    made = begin()
    serve_one()
    assert now(made).status == "waiting_approval"

    send_event(now(made), "paid", 7)
    serve_one()
    serve()
    settle_child(Workflow.objects.get(name="child").pk)
    serve()
    assert now(made).status == "waiting_approval"
    answer_approval(now(made), principal, allow=True)
    serve()
    assert now(made).status == "waiting"
    pass_time(made, 61)
    fire_due()
    serve()
    assert now(made).status == "complete"
    assert {one.name: one.output for one in steps(made)}["paid"] == 7


def test_an_event_goes_to_only_one_of_two_waiting_branches(define, begin):
    fork(define, {
        "a": lambda step: step.wait_for_event("a1", type="go"),
        "b": lambda step: step.wait_for_event("b1", type="go"),
    })  # fmt: skip
    made = begin()
    serve()
    send_event(now(made), "go", 1)
    serve()
    assert states(made) == [("a1", "complete", 1), ("b1", "waiting", 1)]
    send_event(now(made), "go", 2)
    serve()
    assert [one.output for one in steps(made)] == [1, 2]


def test_an_event_that_arrives_while_another_branch_runs_is_not_missed(define, begin):
    made = None

    def meanwhile():
        send_event(now(made), "go", "early")

    fork(define, {
        "a": lambda step: step.wait_for_event("a1", type="go"),
        "b": lambda step: step.do("b1", meanwhile),
    })  # fmt: skip
    made = begin()
    serve()

    assert now(made).status == "complete"
    assert steps(made)[0].output == "early"


def test_an_answer_that_arrives_during_a_replay_is_not_missed(define, begin, principal):
    """The main code waits for a person while a branch waits for an event."""

    def run(self, event, step):
        branches = step.branches()
        branches.run("a", lambda: step.wait_for_event("a1", type="go"))
        try:
            step.wait_for_approval("ask", title="Go?")
        except WorkflowRejected:
            return "no"

    define(run)
    made = begin()
    serve()
    send_event(now(made), "go", 1)
    held = claim()
    known = store.load_steps(made.pk)  # Read before the answer.
    answer_approval(now(made), principal, allow=False)
    with pytest.MonkeyPatch.context() as stale:
        stale.setattr(store, "load_steps", lambda _: known)
        serve_one(held)
    serve()

    assert now(made).output == "no"


def test_a_kill_repeats_no_finished_step(define, begin, monkeypatch):
    """Wherever the worker dies, finished steps stay finished; only the running step is repeated."""
    done = []
    fork(define, {
        "a": lambda step: (step.do("a1", lambda: done.append("a1")), step.sleep("a2", 60),
                           step.do("a3", lambda: done.append("a3"))),
        "b": lambda step: (step.do("b1", lambda: done.append("b1")), step.sleep("b2", 60),
                           step.do("b3", lambda: done.append("b3"))),
    })  # fmt: skip
    made = begin()
    for _ in range(2):  # Dies once before b1 and once before b3.
        held = claim()
        monkeypatch.setattr(crash_points, "on_reach", dies_at("step_begun", times=2))
        with pytest.raises(Killed):
            serve_one(held)
        monkeypatch.undo()
        lose(held)
        recover()
        serve()
        pass_time(made, 61)
        fire_due()
    serve()

    assert now(made).status == "complete"
    assert done == ["a1", "b1", "a3", "b3"]
    attempts = {one.name: one.attempts for one in steps(made)}
    assert attempts == {"a1": 1, "a2": 1, "a3": 1, "b1": 2, "b2": 1, "b3": 2}


def test_a_finished_step_stays_finished_when_another_branch_is_overdue(define, begin, monkeypatch):
    done = []
    fork(define, {
        "a": lambda step: (step.wait_for_event("a1", type="go"),
                           step.do("a2", lambda: done.append("a2"), retries=0)),
        "b": lambda step: step.do("b1", lambda: done.append("b1"), delay=60),
    })  # fmt: skip
    made = begin()
    held = claim()
    monkeypatch.setattr(crash_points, "on_reach", dies_at("step_begun"))
    with pytest.raises(Killed):
        serve_one(held)
    monkeypatch.undo()
    overdue(held)
    send_event(now(made), "go", 1)
    assert recover().overdue == [made.pk]
    serve()  # Runs a2, then finds that the retry of b1 is not due.

    assert states(made)[2] == ("a2", "complete", 1)
    pass_time(made, 61)
    fire_due()
    serve()
    assert now(made).status == "complete"
    assert done == ["a2", "b1"]


def test_a_branch_that_waits_for_its_retry_holds_up_no_other(define, begin):
    tries, done = [], []

    def shaky():
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")

    fork(define, {
        "shaky": lambda step: step.do("shaky", shaky, delay=60, backoff="constant"),
        "steady": lambda step: (step.sleep("nap", 10), step.do("steady", lambda: done.append(1))),
    })  # fmt: skip
    made = begin()
    serve()
    pass_time(made, 11)
    fire_due()
    serve()
    assert (len(tries), done) == (1, [1])  # Woken by the sleep, and not retried too early.
    for _ in range(2):
        pass_time(made, 61)
        fire_due()
        serve()
    assert now(made).status == "complete"
    assert len(tries) == 3


def test_resume_shifts_the_timers_of_every_branch(define, begin):
    fork(define, {
        "a": lambda step: step.sleep("a1", 60),
        "b": lambda step: step.sleep("b1", 90),
    })  # fmt: skip
    made = begin()
    serve()
    pause(made)
    before = [one.wake_at for one in steps(made)]
    paused = now(made).paused_at - timedelta(seconds=600)
    Workflow.objects.filter(pk=made.pk).update(paused_at=paused)
    resume(made)
    serve()

    assert now(made).status == "waiting"
    shifts = [
        (new.wake_at - old).total_seconds() for new, old in zip(steps(made), before, strict=True)
    ]
    assert all(600 <= shift < 660 for shift in shifts)
    assert not fire_due()


def test_the_supervisor_settles_a_branch_whose_childs_wake_up_was_lost(define, begin):
    define(lambda self, event, step: 1, name="child")
    fork(define, {
        "a": lambda step: step.spawn("spawn", "child"),
        "b": lambda step: step.wait_for_approval("ask", title="?"),
    })  # fmt: skip
    made = begin()
    serve()
    assert settle_lost() == [made.pk]
    assert states(made)[0] == ("spawn", "complete", 1)
