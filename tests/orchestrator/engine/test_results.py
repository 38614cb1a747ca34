"""Tests of results, names and calls that a step may not return, use or make."""

from __future__ import annotations

import sys

import pytest

from tests.orchestrator.conftest import now, serve, states, steps

pytestmark = pytest.mark.django_db


def test_a_result_above_one_mebibyte_is_refused_and_not_retried(define, begin):
    tries = []

    def large():
        tries.append(1)
        return "x" * (1024 * 1024)

    define(lambda self, event, step: step.do("large", large, delay=0))
    made = begin()
    serve()

    assert tries == [1]
    assert now(made).error["code"] == "result_too_large"
    assert "1,048,576" in now(made).error["message"]


def test_a_result_of_exactly_one_mebibyte_is_stored(define, begin):
    most = "x" * (1024 * 1024 - len('""'))
    define(lambda self, event, step: step.do("large", lambda: most))
    made = begin()
    serve()

    assert now(made).status == "complete"
    assert steps(made)[0].output == now(made).output == most


def test_a_result_that_is_not_json_is_refused(define, begin):
    define(lambda self, event, step: step.do("odd", lambda: object(), delay=0))
    made = begin()
    serve()

    assert now(made).error["code"] == "result_unfit"
    assert "'odd'" in now(made).error["message"]


@pytest.mark.parametrize("inner", [
    lambda step: step.do("inner", lambda: 1), lambda step: step.sleep("inner", 60)
])  # fmt: skip
def test_a_step_within_a_step_is_refused(define, begin, inner):
    define(lambda self, event, step: step.do("outer", lambda: inner(step)))
    made = begin()
    serve()

    assert now(made).status == "errored"
    assert "inside another" in now(made).error["message"]
    assert states(made) == [("outer", "errored", 1)]


@pytest.mark.parametrize("run", [
    lambda self, event, step: sys.exit(3),
    lambda self, event, step: step.do("leave", lambda: sys.exit(3), retries=0),
])  # fmt: skip
def test_code_that_exits_the_process_fails_only_its_workflow(define, begin, run):
    define(run)
    made = begin()
    serve()

    assert now(made).status == "errored"
    assert "exit(3)" in now(made).error["message"]


def test_characters_that_the_database_cannot_store_are_replaced(define, begin):
    def run(self, event, step):
        self.report_progress("half\0way", percent=50)
        self.broadcast_to_clients({"a\0b": ["\0"]})
        step.wait_for_approval("ok?", message="a\0b", details={"x": "\0"})

    define(run)
    made = begin()
    serve()

    assert now(made).status == "waiting_approval"
    assert now(made).progress["message"] == "half\ufffdway"
    assert steps(made)[0].detail["message"] == "a\ufffdb"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("run", [
    lambda self, event, step: step.wait_for_event("e", type="a\0b"),
    lambda self, event, step: step.spawn("child", "child", {"x": "\0"}),
])  # fmt: skip
def test_a_wait_that_the_database_cannot_hold_fails_at_once(define, begin, run):
    """Otherwise the workflow would be lost and recovered until it is a dead letter."""
    define(lambda self, event, step: 1, name="child")
    define(run)
    made = begin()
    serve()

    assert now(made).status == "errored"
