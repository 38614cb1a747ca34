"""Tests of the lane host when a stop and the next run cross."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager

import pytest

from sessions_app.lanes import run_queue
from sessions_app.lanes.host import LaneHost, lease_of
from sessions_app.lanes.run_queue import Claim
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Session
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.lanes.test_run_queue import send


@pytest.fixture
def host() -> LaneHost:
    """Return a host without threads, so that the test decides when it is notified."""
    made = object.__new__(LaneHost)
    made._prepare(OWNER, slots=2)
    return made


@contextmanager
def holding(host: LaneHost, claim: Claim):
    sign = StopSignal()
    with host.holding(lease_of(claim, sign)):
        yield sign


def begun(session: Session) -> Claim:
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    return claim


def stop(session: Session) -> None:
    run_queue.stop(session.pk)


def test_a_stop_reaches_the_run_that_it_ended(host, session):
    send(session)
    with holding(host, begun(session)) as sign:
        stop(session)
        host.stop(session.pk)

        assert sign.reason == "interrupted"


def test_a_late_notification_of_a_stop_leaves_the_next_run_alone(host, session):
    send(session, "one")
    first = begun(session)
    send(session, "two")
    with holding(host, first):
        stop(session)
        with holding(host, begun(session)) as sign:
            host.stop(session.pk)

            assert not sign.event.is_set()


def test_a_run_that_is_replaced_in_the_same_process_is_told_to_stop(host, session):
    send(session, "one")
    first = begun(session)
    send(session, "two")
    with holding(host, first) as sign:
        stop(session)
        with holding(host, begun(session)):
            assert sign.reason == "fenced"


def test_the_end_of_a_stopped_run_does_not_release_the_next_lease(host, session):
    send(session, "one")
    first = begun(session)
    send(session, "two")
    with ExitStack() as running:
        running.enter_context(holding(host, first))
        stop(session)
        second = begun(session)
        with holding(host, second):
            running.close()

            assert [lease.holder for lease in host.leases] == [second]
        assert not host.leases


def test_an_unexpected_error_in_a_lane_leaves_its_thread_usable(host, monkeypatch):
    served = threading.Event()

    def serve(session_id: object) -> None:
        if session_id == "bad":
            raise KeyError("unforeseen")
        served.set()

    monkeypatch.setattr(host, "serve", serve)
    assert all(host.submit(job) for job in ("bad", "good"))

    assert served.wait(10)
