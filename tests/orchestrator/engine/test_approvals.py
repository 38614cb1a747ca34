"""Tests of steps that wait for an approval."""

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


def test_viewers_are_notified_that_a_person_is_asked(define, begin):
    define(asks)
    begin()
    rung: list[object] = []
    Runner(claim(), StopSignal(), rung.append).run()

    assert rung


def test_a_rejected_workflow_fails_with_the_name_and_note_of_the_person(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    answer_approval(now(made), principal, allow=False, note="too long")
    serve()

    assert now(made).status == "errored"
    assert now(made).error["code"] == "rejected"
    assert now(made).error["message"] == "Rejected by Olive Owner: too long"


def test_a_workflow_can_catch_a_rejection(define, begin, principal):
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


def test_an_approval_of_a_workflow_is_answered_once(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    answer_approval(now(made), principal, allow=True)

    with pytest.raises(NoPendingApproval):
        answer_approval(now(made), principal, allow=False)


def test_an_approval_that_is_not_answered_in_time_fails_the_step(define, begin, principal):
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


def test_a_late_answer_is_refused_even_before_the_timer_has_fired(define, begin, principal):
    define(asks)
    made = begin()
    serve()
    pass_time(made, 61)
    with pytest.raises(NothingToAnswer):
        answer_approval(now(made), principal, allow=True)

    assert states(made) == [("ok?", "waiting", 1)]


def test_viewers_of_the_inbox_are_notified_when_an_approval_expires(define, begin, monkeypatch):
    define(asks)
    made = begin()
    serve()
    told: list[Approval] = []
    monkeypatch.setattr("sessions_app.approvals.approvals.announce", told.extend)
    pass_time(made, 61)
    fire_due()

    assert told == [Approval.objects.get()]


def test_an_approval_without_a_timeout_expires_like_that_of_a_call(define, begin, settings):
    define(lambda self, event, step: step.wait_for_approval("ok?"))
    made = begin()
    serve()
    pass_time(made, settings.APPROVAL_SECONDS - 60)
    assert fire_due() == []
    pass_time(made, 61)
    assert fire_due() == [made.pk]


def pause_for_long(made):
    """Pause a waiting workflow for longer than the timeout of its approval."""
    serve()
    pause(made)
    pass_time(made, 500)
    asked = Approval.objects.get()
    Approval.objects.update(expires_at=asked.expires_at - timedelta(seconds=500))


def test_the_timeout_of_an_approval_stands_still_during_a_pause(define, begin):
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


def test_an_approval_can_be_answered_during_a_pause(define, begin, principal):
    define(asks)
    made = begin()
    pause_for_long(made)
    answer_approval(now(made), principal, allow=True)
    assert now(made).status == "paused"
    resume(made)
    serve()

    assert now(made).output == ["Olive Owner", ""]
