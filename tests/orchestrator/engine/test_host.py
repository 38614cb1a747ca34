"""Tests of the workflow host when a stop and the next claim cross."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from orchestrator.engine import lifecycle
from orchestrator.engine.runner import Runner, WorkflowHost, lease_of
from sessions_app.lanes.signals import StopSignal
from tests.orchestrator.conftest import OWNER, claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> WorkflowHost:
    """Return a host without threads, so that the test decides when it is notified."""
    made = object.__new__(WorkflowHost)
    made._prepare(OWNER, slots=1)
    return made


@pytest.fixture
def hold(host) -> Iterator[Callable[[], Runner]]:
    """Return a function that claims the next workflow and holds it until the test ends."""
    with ExitStack() as held:

        def hold() -> Runner:
            claimed = claim()
            assert claimed
            runner = Runner(claimed, StopSignal(), lambda _: None)
            held.enter_context(host.holding(lease_of(runner)))
            return runner

        yield hold


def works(self, event, step):
    return step.do("once", lambda: 1)


def test_a_stop_reaches_the_runner_that_it_ended(host, hold, define, begin):
    define(works)
    made = begin()
    runner = hold()
    lifecycle.terminate(made)
    host.stop(made.pk)

    assert runner.sign.reason == "stopped"


def test_a_late_notification_of_a_stop_leaves_the_restarted_workflow_alone(
    host, hold, define, begin
):
    define(works)
    made = begin()
    hold()
    lifecycle.restart(made)
    again = hold()
    host.stop(made.pk)

    assert not again.sign.event.is_set()


def test_a_runner_that_is_replaced_in_the_same_process_is_told_to_stop(hold, define, begin):
    """The notification would find only the new runner, and the old one would run to its end."""
    define(works)
    made = begin()
    old = hold()
    lifecycle.restart(made)
    new = hold()

    assert old.sign.reason == "fenced"
    assert not new.sign.event.is_set()


def test_a_thread_survives_an_unexpected_error(host, monkeypatch):
    served: list[str] = []

    def run_next():
        served.append("once more")
        if len(served) == 1:
            raise ValueError("unforeseen")
        raise SystemExit  # Ends the thread that the test waits for.

    monkeypatch.setattr(host, "_run_next", run_next)
    for _ in range(2):
        host._jobs.put(None)
    host._slots.acquire()
    monkeypatch.setattr(host._slots, "release", lambda: None)
    with pytest.raises(SystemExit):
        host._work()

    assert len(served) == 2
