"""What a process does with the workflows that it holds, when a stop and the next claim cross."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from orchestrator import lifecycle
from orchestrator.engine.runner import Runner
from orchestrator.host import WorkflowHost
from sessions_app.stopping import StopSign
from tests.orchestrator.conftest import OWNER, claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> WorkflowHost:
    """A host without its threads: the test says when what is heard."""
    made = object.__new__(WorkflowHost)
    made.owner, made._held, made._lock = OWNER, {}, threading.Lock()
    made._busy, made._ending = threading.Event(), threading.Event()
    made._jobs, made._idle = SimpleQueue(), 0
    made._slots = threading.BoundedSemaphore(1)
    return made


def hold(host: WorkflowHost) -> Runner:
    claimed = claim()
    assert claimed
    runner = Runner(claimed, StopSign(), lambda _: None)
    host._hold(runner)
    return runner


def works(self, event, step):
    return step.do("once", lambda: 1)


def test_a_stop_reaches_the_body_that_it_ended(host, define, begin):
    define(works)
    made = begin()
    runner = hold(host)
    lifecycle.terminate(made)
    host._stop(made.pk)

    assert runner.sign.reason == "stopped"


def test_the_news_of_a_stop_that_comes_late_leaves_the_new_start_alone(host, define, begin):
    define(works)
    made = begin()
    hold(host)
    lifecycle.restart(made)
    again = hold(host)
    host._stop(made.pk)

    assert not again.sign.event.is_set()


def test_who_is_taken_over_in_the_same_process_hears_it(host, define, begin):
    """The news of its stop finds the new start, so the old body would go on until its end."""
    define(works)
    made = begin()
    old = hold(host)
    lifecycle.restart(made)
    new = hold(host)

    assert old.sign.reason == "fenced"
    assert not new.sign.event.is_set()


def test_a_thread_survives_whatever_a_workflow_breaks(host, monkeypatch):
    served: list[str] = []

    def serve():
        served.append("once more")
        if len(served) == 1:
            raise ValueError("nobody thought of this")
        raise SystemExit  # ends the thread, which the test waits for

    monkeypatch.setattr(host, "_serve", serve)
    for _ in range(2):
        host._jobs.put(None)
    host._slots.acquire()
    monkeypatch.setattr(host._slots, "release", lambda: None)
    with pytest.raises(SystemExit):
        host._work()

    assert len(served) == 2
