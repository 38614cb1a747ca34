"""Tests that steps are rolled back in reverse order and that a crash changes nothing."""

from __future__ import annotations

import pytest

from orchestrator.engine.lifecycle import terminate
from orchestrator.engine.recovery import fire_due
from orchestrator.models import Step, WorkflowEvent
from tests.orchestrator.conftest import now, pass_time, serve, steps

pytestmark = pytest.mark.django_db


def take(taken: list[str], name: str) -> str:
    taken.append(f"+{name}")
    return name


def books(taken: list[str], fails: bool = True):
    def run(self, event, step):
        for name in ("flight", "hotel", "car"):
            step.do(
                name,
                lambda name=name: take(taken, name),
                rollback=lambda result: taken.append(f"-{result}"),
            )
        if fails:
            raise ValueError("no money")
        step.sleep("rest", 100)

    return run


def test_rollback_handlers_run_in_reverse_order_when_a_workflow_fails(define, begin):
    taken: list[str] = []
    define(books(taken))
    made = begin()
    serve()

    assert taken == ["+flight", "+hotel", "+car", "-car", "-hotel", "-flight"]
    assert now(made).status == "errored"
    assert now(made).error["message"] == "no money"
    kinds = [(one.name, one.kind, one.status) for one in steps(made)[3:]]
    assert kinds == [
        ("car", "rollback", "complete"),
        ("hotel", "rollback", "complete"),
        ("flight", "rollback", "complete"),
    ]


def test_terminate_with_rollback_runs_the_rollback_handlers(define, begin):
    taken: list[str] = []
    define(books(taken, fails=False))
    made = begin()
    serve()
    assert now(made).status == "waiting"
    terminate(made, rollback=True)
    serve()

    assert taken[3:] == ["-car", "-hotel", "-flight"]
    assert now(made).status == "terminated"


def test_a_rollback_that_fails_is_named_and_the_others_still_run(define, begin):
    taken = []

    def refuse(result):
        raise ValueError("too late")

    def run(self, event, step):
        step.do("a", lambda: 1, rollback=lambda _: taken.append("a"))
        step.do("b", lambda: 1, rollback=refuse, retries=0)
        raise ValueError("no")

    define(run)
    made = begin()
    serve()

    assert taken == ["a"]
    assert now(made).error["rollback_failed"] == ["b"]


def test_a_rollback_continues_after_a_failed_attempt(define, begin):
    taken = []

    def run(self, event, step):
        step.do("a", lambda: 1, rollback=lambda _: taken.append("a"))
        step.do("b", lambda: 1, rollback=undo_b, delay=60)
        raise ValueError("no")

    def undo_b(result):
        taken.append("b")
        if taken.count("b") == 1:
            raise ValueError("again, please")

    define(run)
    made = begin()
    serve()
    assert now(made).status == "waiting"
    pass_time(made, 61)
    fire_due()
    serve()

    assert taken == ["b", "b", "a"]
    assert now(made).status == "errored"
    assert Step.objects.filter(workflow=made, kind="rollback", status="complete").count() == 2


def test_every_attempt_of_a_rollback_receives_the_result_of_its_step(define, begin):
    """The end of the last step and the start of the rollback are written together."""
    given = []

    def undo(result):
        given.append(result)
        if len(given) == 1:
            raise ValueError("again, please")

    def run(self, event, step):
        step.do("book", lambda: {"booking": 5}, rollback=undo, delay=60)
        raise ValueError("no")

    define(run)
    made = begin()
    serve()
    pass_time(made, 61)
    fire_due()
    serve()

    assert given == [{"booking": 5}, {"booking": 5}]


def test_messages_logged_just_before_a_rollback_are_stored(define, begin):
    def run(self, event, step):
        step.do("book", lambda: 1, rollback=lambda _: None)
        for word in ("one", "two"):  # So fast that they are written in one batch.
            self.log(word)
        raise ValueError("no")

    define(run)
    made = begin()
    serve()

    lines = WorkflowEvent.objects.filter(workflow=made, type="log").order_by("seq")
    assert [line.payload["message"] for line in lines] == ["one", "two"]
