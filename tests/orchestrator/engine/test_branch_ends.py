"""Tests of workflows with branches that fail, change or are terminated, and of restarts."""

from __future__ import annotations

import pytest

from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.recovery import fire_due
from orchestrator.engine.waits import settle_child
from orchestrator.models import Workflow
from sessions_app.models import Approval
from tests.orchestrator.conftest import now, pass_time, serve
from tests.orchestrator.engine.test_branches import fork

pytestmark = pytest.mark.django_db


def test_a_failing_branch_ends_the_workflow_and_cancels_what_the_others_wait_for(define, begin):
    def fail():
        raise ValueError("broken")

    fork(define, {
        "person": lambda step: step.wait_for_approval("ask", title="Go?"),
        "child": lambda step: step.spawn("spawn", "sleeper"),
        "wrong": lambda step: step.do("wrong", fail, retries=0),
    })  # fmt: skip
    define(lambda self, event, step: step.sleep("s", 600), name="sleeper")
    made = begin()
    serve()

    assert (now(made).status, now(made).error["message"]) == ("errored", "broken")
    assert Approval.objects.get().status == "cancelled"
    assert Workflow.objects.get(name="sleeper").status == "terminated"


def test_the_same_step_name_in_two_branches_is_refused(define, begin):
    fork(define, {
        "a": lambda step: step.do("same", lambda: 1),
        "b": lambda step: step.do("same", lambda: 1),
    })  # fmt: skip
    made = begin()
    serve()
    assert "Another branch has a step named" in now(made).error["message"]


def test_changed_code_in_a_branch_is_detected(define, begin):
    fork(define, {"a": lambda step: step.sleep("one", 60), "b": lambda step: step.sleep("b", 60)})
    made = begin()
    serve()
    fork(define, {"a": lambda step: step.sleep("two", 60), "b": lambda step: step.sleep("b", 60)})
    pass_time(made, 61)
    fire_due()
    serve()
    assert "was 'one'" in now(made).error["message"]


def test_changed_code_cancels_what_the_other_branches_wait_for(define, begin):
    define(lambda self, event, step: step.sleep("s", 600), name="sleeper")
    child = {"child": lambda step: step.spawn("spawn", "sleeper")}
    fork(define, {**child, "nap": lambda step: step.sleep("one", 60)})
    made = begin()
    serve()
    fork(define, {**child, "nap": lambda step: step.sleep("two", 60)})
    pass_time(made, 61)
    fire_due()
    serve()

    assert "was 'one'" in now(made).error["message"]
    assert Workflow.objects.get(name="sleeper").status == "terminated"


def test_rollback_handlers_run_in_reverse_order_across_branches(define, begin):
    undone: list[str] = []

    def act(step, name):
        step.do(name, lambda: name, rollback=undone.append)

    fork(define, {
        "a": lambda step: (act(step, "1st"), step.sleep("nap", 60), act(step, "3rd"),
                           step.sleep("rest", 60)),
        "b": lambda step: act(step, "2nd"),
    })  # fmt: skip
    made = begin()
    serve()
    pass_time(made, 61)
    fire_due()
    serve()
    terminate(made, rollback=True)
    serve()

    assert undone == ["3rd", "2nd", "1st"]


def test_the_steps_of_every_branch_are_rolled_back(define, begin):
    undone: list[str] = []
    fork(define, {
        name: lambda step, name=name: (
            step.do(name, lambda: name, rollback=undone.append), step.sleep(f"{name}-nap", 60)
        )
        for name in ("a", "b")
    })  # fmt: skip
    made = begin()
    serve()
    terminate(made, rollback=True)
    serve()
    assert sorted(undone) == ["a", "b"]
    assert now(made).status == "terminated"


def test_terminating_cancels_the_pending_approval(define, begin):
    define(lambda self, event, step: step.wait_for_approval("ask", title="?"))
    made = begin()
    serve()
    terminate(made)
    assert Approval.objects.get().status == "cancelled"


# ── Restart from a step ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fails_once(define):
    """Return a function that adds a branch which fails only the first time."""
    tries: list[int] = []

    def shaky():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("broken")

    def use(**waits):
        shaken = {"shaky": lambda step: step.do("shaky", shaky, retries=0)}
        fork(define, {**waits, **shaken})

    return use


def test_a_restart_from_a_failed_branch_asks_again_for_the_approvals_of_the_others(
    fails_once, begin, principal
):
    fails_once(person=lambda step: step.wait_for_approval("ask", title="Go?"))
    made = begin()
    serve()
    assert now(made).status == "errored"
    restart(now(made), from_step="shaky")
    serve()
    assert now(made).status == "waiting_approval"
    answer_approval(now(made), principal, allow=True)
    serve()

    assert now(made).status == "complete"


def test_a_restart_from_a_failed_branch_starts_again_the_children_that_were_stopped(
    fails_once, begin, define
):
    define(lambda self, event, step: step.sleep("s", 60), name="sleeper")
    fails_once(child=lambda step: step.spawn("child", "sleeper"))
    made = begin()
    serve()
    (stopped,) = Workflow.objects.filter(name="sleeper", status="terminated")
    settle_child(stopped.pk)  # The child's end arrives when no step waits for it any more.
    restart(now(made), from_step="shaky")
    serve()

    (again,) = Workflow.objects.filter(name="sleeper", status="waiting")
    pass_time(again, 61)
    fire_due()
    serve()
    settle_child(again.pk)
    serve()
    assert now(made).status == "complete"


def test_a_restart_of_a_waiting_workflow_leaves_the_other_branches_waiting(define, begin):
    fork(define, {
        "person": lambda step: step.wait_for_approval("ask", title="Go?"),
        "nap": lambda step: (step.do("before", lambda: 1), step.sleep("nap", 60)),
    })  # fmt: skip
    made = begin()
    serve()
    asked = Approval.objects.get()
    restart(now(made), from_step="before")
    serve()

    assert list(Approval.objects.values_list("pk", "status")) == [(asked.pk, "pending")]
    assert now(made).status == "waiting_approval"
