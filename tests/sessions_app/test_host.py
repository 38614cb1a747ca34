"""What a process does with the lanes that it holds, when a stop and the next run cross."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

from sessions_app import lanes
from sessions_app.host import LaneHost
from sessions_app.lanes import Claim
from sessions_app.models import Session
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.test_lanes import send


@pytest.fixture
def host() -> LaneHost:
    """A host without its threads: the test says when what is heard."""
    made = object.__new__(LaneHost)
    made.owner, made._held, made._lock = OWNER, {}, threading.Lock()
    return made


def begun(session: Session) -> Claim:
    claim = lanes.claim(session.pk, OWNER)
    assert claim
    return claim


def stop(session: Session) -> None:
    lanes.stop(session.pk)


def test_a_stop_reaches_the_run_that_it_ended(host, session):
    send(session)
    with host._holding(begun(session)) as sign:
        stop(session)
        host._stop(session.pk)

        assert sign.reason == "interrupted"


def test_the_news_of_a_stop_that_comes_late_leaves_the_next_run_alone(host, session):
    send(session, "one")
    first = begun(session)
    send(session, "two")
    with host._holding(first):
        stop(session)
        with host._holding(begun(session)) as sign:
            host._stop(session.pk)

            assert not sign.event.is_set()


def test_the_end_of_a_stopped_run_does_not_let_go_of_the_next_one(host, session):
    send(session, "one")
    first = begun(session)
    send(session, "two")
    with ExitStack() as running:
        running.enter_context(host._holding(first))
        stop(session)
        second = begun(session)
        with host._holding(second):
            running.close()

            assert host._held[session.pk][0] == second
        assert not host._held


def test_a_lane_that_breaks_in_an_unforeseen_way_leaves_its_thread_to_the_next(host, monkeypatch):
    served = threading.Event()

    def serve(session_id: object) -> None:
        if session_id == "bad":
            raise KeyError("nobody thought of it")
        served.set()

    monkeypatch.setattr(host, "_serve", serve, raising=False)
    host._jobs, host._idle, host._slots = SimpleQueue(), 0, threading.Semaphore(0)
    threading.Thread(target=host._work, daemon=True).start()
    for job in ("bad", "good"):
        host._jobs.put(job)

    assert served.wait(10)
