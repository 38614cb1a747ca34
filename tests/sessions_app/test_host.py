"""Tests of the lane host when a stop and the next run cross."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from uuid import UUID

import pytest

from core.ids import uuid7
from sessions_app.lanes import run_queue
from sessions_app.lanes.host import LaneHost, lease_of
from sessions_app.lanes.run_queue import Claim, LoadedRun
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


class Crowd:
    """Sessions of two workspaces, whose runs last until they are told to end."""

    def __init__(self, host: LaneHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.begun: list[UUID] = []
        self.ends: dict[UUID, threading.Event] = {}
        self.owners: dict[UUID, UUID] = {}
        monkeypatch.setattr(run_queue, "claim", self.claim)
        monkeypatch.setattr(
            run_queue, "workspaces_of", lambda ids: {i: self.owners[i] for i in ids}
        )
        monkeypatch.setattr("sessions_app.lanes.host.run", self.run)

    def sessions(self, workspace_id: UUID, count: int) -> list[UUID]:
        made = [uuid7() for _ in range(count)]
        self.owners |= dict.fromkeys(made, workspace_id)
        self.ends |= {one: threading.Event() for one in made}
        return made

    def claim(self, session_id: UUID, owner: UUID) -> Claim:
        facts = {"workspace_id": str(self.owners[session_id])}
        loaded = LoadedRun(facts=facts, known=None)
        return Claim(session_id=session_id, run_id=uuid7(), epoch=1, loaded=loaded)

    def run(self, claim: Claim, owner: UUID, sign: StopSignal) -> None:
        self.begun.append(claim.session_id)
        assert self.ends[claim.session_id].wait(20)

    def wait_for(self, count: int) -> None:
        for _ in range(400):
            if len(self.begun) >= count:
                return
            time.sleep(0.01)
        raise AssertionError(f"{len(self.begun)} of {count} runs began.")


def test_a_workspace_with_many_runs_leaves_lanes_to_another(monkeypatch):
    host = object.__new__(LaneHost)
    host._prepare(OWNER, slots=8)
    crowd = Crowd(host, monkeypatch)
    flooding, other = crowd.sessions(uuid7(), 20), crowd.sessions(uuid7(), 2)
    for one in flooding:
        host.wake_many([one])
        crowd.wait_for(min(host.share, flooding.index(one) + 1))

    host.wake_many(other)
    crowd.wait_for(host.share + 2)
    assert set(crowd.begun) == {*flooding[: host.share], *other}

    for end in crowd.ends.values():
        end.set()
    crowd.wait_for(22)  # what had to wait runs too, once and in its order
    assert [one for one in crowd.begun if one in flooding] == flooding
    assert not host._workspaces
    assert not host._deferred


def test_many_wake_ups_at_once_take_no_more_than_the_share(monkeypatch):
    host = object.__new__(LaneHost)
    host._prepare(OWNER, slots=8)
    crowd = Crowd(host, monkeypatch)
    flooding, other = crowd.sessions(uuid7(), 20), crowd.sessions(uuid7(), 1)

    host.wake_many([*flooding, *other])
    crowd.wait_for(host.share + 1)

    assert set(crowd.begun) == {*flooding[: host.share], *other}
    for end in crowd.ends.values():
        end.set()
    crowd.wait_for(21)
