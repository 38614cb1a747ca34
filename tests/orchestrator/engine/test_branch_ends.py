"""How a workflow with branches ends otherwise than well, and what becomes of its other branches."""

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


def test_a_branch_that_fails_ends_the_workflow_and_what_the_others_wait_for(define, begin):
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


def test_the_same_name_in_two_branches_is_refused(define, begin):
    fork(define, {
        "a": lambda step: step.do("same", lambda: 1),
        "b": lambda step: step.do("same", lambda: 1),
    })  # fmt: skip
    made = begin()
    serve()
    assert "Another branch has a step named" in now(made).error["message"]


def test_code_that_changed_in_a_branch_is_noticed(define, begin):
    fork(define, {"a": lambda step: step.sleep("one", 60), "b": lambda step: step.sleep("b", 60)})
    made = begin()
    serve()
    fork(define, {"a": lambda step: step.sleep("two", 60), "b": lambda step: step.sleep("b", 60)})
    pass_time(made, 61)
    fire_due()
    serve()
    assert "was 'one'" in now(made).error["message"]


def test_code_that_changed_ends_what_the_other_branches_wait_for(define, begin):
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


def test_what_was_done_last_is_undone_first_in_whichever_branch_it_was(define, begin):
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


def test_what_was_done_in_every_branch_is_undone(define, begin):
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


def test_terminate_takes_its_question_out_of_the_inbox(define, begin):
    define(lambda self, event, step: step.wait_for_approval("ask", title="?"))
    made = begin()
    serve()
    terminate(made)
    assert Approval.objects.get().status == "cancelled"


# ── Once more, from a step ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def fails_once(define):
    """One branch fails while others wait; tried again, it works."""
    tries: list[int] = []

    def shaky():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("broken")

    def use(**waits):
        shaken = {"shaky": lambda step: step.do("shaky", shaky, retries=0)}
        fork(define, {**waits, **shaken})

    return use


def test_a_restart_from_a_failed_branch_asks_anew_what_the_others_waited_for(
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


def test_a_restart_from_a_failed_branch_begins_anew_what_was_stopped_with_it(
    fails_once, begin, define
):
    define(lambda self, event, step: step.sleep("s", 60), name="sleeper")
    fails_once(child=lambda step: step.spawn("child", "sleeper"))
    made = begin()
    serve()
    (stopped,) = Workflow.objects.filter(name="sleeper", status="terminated")
    settle_child(stopped.pk)  # its end comes when nobody waits for it any more
    restart(now(made), from_step="shaky")
    serve()

    (again,) = Workflow.objects.filter(name="sleeper", status="waiting")
    pass_time(again, 61)
    fire_due()
    serve()
    settle_child(again.pk)
    serve()
    assert now(made).status == "complete"


def test_a_restart_of_what_goes_on_lets_the_other_branches_wait_on(define, begin):
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
