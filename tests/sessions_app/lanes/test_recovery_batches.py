"""Tests that a row which fails does not hold up the other rows of a supervisor's batch."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from core.db import for_each
from core.ids import uuid7
from orchestrator.exceptions import NoPendingApproval
from sessions_app.approvals import approvals
from sessions_app.lanes import recovery, run_queue
from sessions_app.models import Approval
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.lanes.test_run_queue import send
from tests.sessions_app.waiting_calls import parked


def test_an_approval_that_fails_to_expire_does_not_hold_up_the_others(session, monkeypatch):
    poisoned, sound = parked(session, 2)
    Approval.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    real = approvals._apply

    def apply(resolution):
        if resolution.approval.pk == poisoned.pk:
            raise NoPendingApproval
        return real(resolution)

    monkeypatch.setattr(approvals, "_apply", apply)

    seen = recovery.recover_lanes()

    assert seen.expired == [sound.pk]
    assert Approval.objects.get(pk=poisoned.pk).status == "pending"


def test_a_batch_stops_at_once_when_the_database_is_unavailable():
    tried = []

    def act(row: int) -> None:
        tried.append(row)
        raise OperationalError("server closed the connection unexpectedly")

    with pytest.raises(OperationalError):
        for_each([1, 2], act)
    assert tried == [1]


def test_a_lost_wake_up_is_repeated_even_when_an_earlier_row_fails(session, monkeypatch):
    send(session)
    run_queue.release(run_queue.claim(session.pk, OWNER), reason="test")
    monkeypatch.setattr(recovery, "_unanswered_calls", lambda: [(uuid7(), "gone")])
    monkeypatch.setattr(recovery, "LOST_WAKE_SECONDS", 0.0)

    assert recovery.recover_lanes().woken == [session.pk]
