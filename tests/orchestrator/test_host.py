"""What a process does with the workflows that it holds, when a stop and the next claim cross."""

from __future__ import annotations

import threading

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
    return made


def hold(host: WorkflowHost) -> Runner:
    claimed = claim()
    assert claimed
    runner = Runner(claimed, StopSign(), lambda _: None)
    host._held[claimed.id] = runner
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
