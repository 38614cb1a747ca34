"""The supervisor's loop: one duty that fails keeps no other from being done."""

from __future__ import annotations

import threading

import pytest
from django.db import OperationalError

from config.faults import NotFound
from orchestrator import supervisor
from orchestrator.supervisor import Duty


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [OperationalError, NotFound, ZeroDivisionError])
def test_a_duty_that_fails_is_tried_again_and_holds_up_no_other(monkeypatch, error):
    stop, tries, done = threading.Event(), [], []

    def fail() -> None:
        tries.append(1)
        raise error

    def work() -> None:
        done.append(1)
        if len(done) == 2:
            stop.set()

    monkeypatch.setattr(
        supervisor, "duties", lambda: [Duty(every=0, work=fail), Duty(every=0, work=work)]
    )
    monkeypatch.setattr(supervisor, "leave", lambda: None)
    supervisor._do_duties(stop)

    assert (len(tries), len(done)) == (2, 2)
