"""Tests of sleeps and events: exact, first in first out, without holding a worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from core.exceptions import Invalid
from orchestrator.engine import lifecycle
from orchestrator.engine.lifecycle import send_event
from orchestrator.engine.recovery import fire_due, seconds_to_next
from orchestrator.exceptions import InboxFull, WaitTimedOut, WorkflowEnded
from orchestrator.models import WorkflowSignal
from tests.orchestrator.conftest import now, pass_time, serve, serve_one, states, steps

pytestmark = pytest.mark.django_db


def test_a_sleep_holds_no_worker_and_ends_when_it_is_due(define, begin):
    def run(self, event, step):
        step.sleep("nap", timedelta(hours=2))
        return "awake"

    define(run)
    made = begin()
    serve()
    row = now(made)
    assert (row.status, row.lease_owner) == ("waiting", None)
    assert 7100 < seconds_to_next() <= 7200
    pass_time(made, 7199)
    assert fire_due() == []
    pass_time(made, 2)
    assert fire_due() == [made.pk]
    serve()

    assert now(made).output == "awake"


def test_sleeping_until_a_past_moment_continues_at_once(define, begin):
    def run(self, event, step):
        step.sleep_until("then", timezone.now() - timedelta(days=1))
        return "on"

    define(run)
    made = begin()
    serve()
    fire_due()
    serve()

    assert now(made).output == "on"


@pytest.mark.parametrize("span", [-1, timedelta(days=366)])
def test_a_sleep_is_at_most_a_year_and_not_negative(define, begin, span):
    define(lambda self, event, step: step.sleep("odd", span))
    made = begin()
    serve()

    assert now(made).status == "errored"
    assert "365 days" in now(made).error["message"]


def test_an_event_wakes_the_step_that_waits_for_it(define, begin):
    define(lambda self, event, step: step.wait_for_event("pay", type="paid"))
    made = begin()
    serve()
    assert now(made).status == "waiting"
    send_event(made, "other", {"no": 1})
    assert now(made).status == "waiting"
    send_event(made, "paid", {"euro": 5})
    serve()

    assert now(made).output == {"euro": 5}


def test_an_early_event_is_kept_for_its_step(define, begin):
    define(lambda self, event, step: step.wait_for_event("pay", type="paid"))
    made = begin()
    send_event(made, "paid", {"euro": 7})
    serve()

    assert now(made).output == {"euro": 7}
    assert states(made) == [("pay", "complete", 1)]


def test_events_of_one_type_are_taken_first_in_first_out(define, begin):
    def run(self, event, step):
        return [step.wait_for_event("next", type="n") for _ in range(3)]

    define(run)
    made = begin()
    for n in (1, 2):
        send_event(made, "n", n)
    send_event(made, "m", "other type")
    serve()
    assert now(made).status == "waiting"
    send_event(made, "n", 3)
    serve()

    assert now(made).output == [1, 2, 3]
    assert WorkflowSignal.objects.filter(workflow=made, taken_by=None).get().type == "m"


def test_a_wait_for_an_event_times_out_after_a_day_by_default(define, begin):
    define(lambda self, event, step: step.wait_for_event("pay", type="paid"))
    made = begin()
    serve()
    pass_time(made, 86_399)
    assert fire_due() == []
    pass_time(made, 2)
    fire_due()
    serve()

    assert now(made).status == "errored"
    assert now(made).error["code"] == "timeout"


def waits_twice(self, event, step):
    try:
        first = step.wait_for_event("first", type="n", timeout=10)
    except WaitTimedOut:
        first = None
    return [first, step.wait_for_event("second", type="n")]


def test_a_timed_out_wait_never_takes_the_next_event(define, begin):
    """See workers-sdk #11740."""
    define(waits_twice)
    made = begin()
    serve()
    pass_time(made, 11)
    fire_due()
    send_event(made, "n", "for the second")
    serve()

    assert now(made).output == [None, "for the second"]


def test_an_event_after_a_timeout_goes_to_the_next_wait_even_before_the_timer_has_fired(
    define, begin
):
    """See workers-sdk #11740."""
    define(waits_twice)
    made = begin()
    serve()
    pass_time(made, 11)
    send_event(made, "n", "late")
    serve()

    assert now(made).output == [None, "late"]


def test_an_event_for_a_workflow_that_is_over_is_refused(define, begin):
    define(lambda self, event, step: 1)
    made = begin()
    serve()

    with pytest.raises(WorkflowEnded):
        send_event(made, "n", 1)


def test_the_number_of_waiting_events_is_limited(define, begin, monkeypatch):
    monkeypatch.setattr(lifecycle, "MAX_EVENTS", 2)
    define(lambda self, event, step: step.wait_for_event("x", type="x"))
    made = begin()
    send_event(made, "n", 1)
    send_event(made, "n", 1)

    with pytest.raises(InboxFull):
        send_event(made, "n", 1)


def test_a_full_inbox_accepts_an_event_that_a_step_waits_for(define, begin, monkeypatch):
    monkeypatch.setattr(lifecycle, "MAX_EVENTS", 2)
    define(lambda self, event, step: step.wait_for_event("x", type="x"))
    made = begin()
    serve()
    for _ in range(2):
        send_event(made, "unasked", 1)
    send_event(made, "x", "asked")
    serve()

    assert now(made).output == "asked"


def test_the_payload_of_an_event_is_bounded(define, begin):
    define(lambda self, event, step: 1)

    with pytest.raises(Invalid, match="1 MiB"):
        send_event(begin(), "n", "x" * (1024 * 1024))


def test_a_waiting_workflow_is_not_claimed(define, begin):
    define(lambda self, event, step: step.sleep("long", 1000))
    made = begin()
    serve()

    assert not serve_one()
    assert steps(made)[0].status == "waiting"
