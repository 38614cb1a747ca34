"""Steps that wait for a person: answered once, in time, and seen by those who watch."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.lifecycle import pause, resume
from orchestrator.engine.recovery import fire_due, seconds_to_next
from orchestrator.engine.runner import Runner
from orchestrator.exceptions import NoPendingApproval, WorkflowRejected
from sessions_app.approvals.approvals import expire_overdue
from sessions_app.exceptions import NothingToAnswer
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Approval
from tests.orchestrator.conftest import claim, now, pass_time, serve, states, steps

pytestmark = pytest.mark.django_db


def asks(self, event, step):
    answer = step.wait_for_approval("ok?", title="Publish it?", timeout=60)
    return [answer["by"], answer["note"]]


def test_a_workflow_waits_for_an_approval_and_goes_on(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    assert now(made).status == "waiting_approval"
    assert steps(made)[0].detail["title"] == "Publish it?"
    answer_approval(now(made), principal, allow=True, note="fine")
    serve()

    assert now(made).output == ["Olive Owner", "fine"]


def test_those_who_watch_hear_that_a_person_is_asked(define, begin):
    define(asks)
    begin()
    rung: list[object] = []
    Runner(claim(), StopSignal(), rung.append).run()

    assert rung


def test_a_rejected_workflow_fails_and_says_who_and_why(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    answer_approval(now(made), principal, allow=False, note="too long")
    serve()

    assert now(made).status == "errored"
    assert now(made).error["code"] == "rejected"
    assert now(made).error["message"] == "Rejected by Olive Owner: too long"


def test_a_workflow_may_catch_a_no(define, begin, principal):
    def run(self, event, step):
        try:
            step.wait_for_approval("ok?")
        except WorkflowRejected:
            return "then not"

    define(run)
    made = begin()
    serve()
    answer_approval(now(made), principal, allow=False)
    serve()

    assert now(made).output == "then not"


def test_an_approval_is_answered_once_whatever_is_clicked_twice(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    answer_approval(now(made), principal, allow=True)

    with pytest.raises(NoPendingApproval):
        answer_approval(now(made), principal, allow=False)


def test_an_approval_that_nobody_gives_in_time_fails_the_step(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    pass_time(made, 61)
    fire_due()
    with pytest.raises(NoPendingApproval):
        answer_approval(now(made), principal, allow=True)
    serve()

    assert now(made).error["code"] == "timeout"
    assert now(made).error["message"] == "The approval was not answered in time."
    assert Approval.objects.get().status == "expired"


def test_an_answer_that_comes_too_late_is_refused_though_no_timer_has_fired(
    define, begin, principal
):
    define(asks)
    made = begin()
    serve()
    pass_time(made, 61)
    with pytest.raises(NothingToAnswer):
        answer_approval(now(made), principal, allow=True)

    assert states(made) == [("ok?", "waiting", 1)]


def test_those_who_watch_the_inbox_hear_that_the_time_of_a_question_is_up(
    define, begin, monkeypatch
):
    define(asks)
    made = begin()
    serve()
    told: list[Approval] = []
    monkeypatch.setattr("sessions_app.approvals.approvals.announce", told.extend)
    pass_time(made, 61)
    fire_due()

    assert told == [Approval.objects.get()]


def test_a_question_without_a_time_waits_as_long_as_any_call(define, begin, settings):
    define(lambda self, event, step: step.wait_for_approval("ok?"))
    made = begin()
    serve()
    pass_time(made, settings.APPROVAL_SECONDS - 60)
    assert fire_due() == []
    pass_time(made, 61)
    assert fire_due() == [made.pk]


def pause_for_long(made):
    """A workflow that waits for a person is paused until after the time it gave them."""
    serve()
    pause(made)
    pass_time(made, 500)
    asked = Approval.objects.get()
    Approval.objects.update(expires_at=asked.expires_at - timedelta(seconds=500))


def test_the_time_of_a_question_stands_still_in_a_pause(define, begin):
    define(asks)
    made = begin()
    pause_for_long(made)
    expire_overdue(10)
    assert states(made) == [("ok?", "waiting", 1)]
    resume(made)
    assert fire_due() == []
    assert expire_overdue(10) == []

    asked, step = Approval.objects.get(), steps(made)[0]
    assert (asked.status, now(made).status) == ("pending", "waiting_approval")
    assert abs(asked.expires_at - step.wake_at) < timedelta(seconds=1)
    assert 58 < seconds_to_next() <= 60


def test_a_question_can_be_answered_in_a_pause_as_time_stands_still(define, begin, principal):
    define(asks)
    made = begin()
    pause_for_long(made)
    answer_approval(now(made), principal, allow=True)
    assert now(made).status == "paused"
    resume(made)
    serve()

    assert now(made).output == ["Olive Owner", ""]
