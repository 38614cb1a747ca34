"""Tests of the delays between attempts and of the timeout of an attempt."""

from __future__ import annotations

import pytest

from orchestrator.engine.definition import RetryPolicy
from orchestrator.engine.recovery import recover
from orchestrator.engine.store import rows
from tests.orchestrator.conftest import attempts, now, serve

pytestmark = pytest.mark.django_db


def test_the_default_is_five_exponential_retries_from_ten_seconds_and_a_timeout_of_ten_minutes():
    policy = RetryPolicy()

    assert policy.timeout == 600
    assert [policy.pause(n) for n in (1, 2, 3, 4, 5)] == [10, 20, 40, 80, 160]
    assert [policy.allows_more(n) for n in (5, 6)] == [True, False]


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [("constant", [3, 3, 3]), ("linear", [3, 6, 9]), ("exponential", [3, 6, 12])],
)
def test_a_delay_is_constant_linear_or_exponential(backoff, pauses):
    policy = RetryPolicy(delay=3, backoff=backoff)

    assert [policy.pause(n) for n in (1, 2, 3)] == pauses


@pytest.mark.django_db(transaction=True)
def test_an_attempt_that_exceeds_its_timeout_is_ended_and_counted(define, begin):
    bodies = []

    def run(self, event, step):
        def slow():
            bodies.append(step.attempt)
            if step.attempt == 1:
                move_deadline(made)
                recover()  # As the supervisor would, while the body still runs.
            return "done"

        return step.do("slow", slow, timeout=5, retries=1, delay=0)

    define(run)
    made = begin()
    serve()

    assert bodies == [1, 2]
    assert now(made).output == "done"
    assert attempts(made) == [(1, "timed_out"), (2, "complete")]


def move_deadline(made) -> None:
    rows(
        "UPDATE workflows SET deadline = clock_timestamp() - interval '1 s' WHERE id = %s RETURNING 1",
        [made.pk],
    )
