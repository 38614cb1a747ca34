"""Tests that a worker which lost its session while a tool ran stores no memory."""

from __future__ import annotations

import threading

import pytest

from core.exceptions import StaleEpoch
from memory.models import MemoryEntry
from sessions_app.harness.execution import tool_context
from sessions_app.harness.turn import load_turn
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.writer import NewEvent
from sessions_app.models import Session, SessionEvent, ToolExecution
from tests.sessions_app.conftest import OWNER
from tools_app.registry import registry


@pytest.fixture
def store(session):
    """Return a function that calls `memory_store` as a run of this session would."""
    message = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "remember"})
    run_queue.accept(session.pk, message)
    turn = load_turn(run_queue.claim(session.pk, OWNER), OWNER, StopSignal())
    call = ToolExecution(session=session, tool_use_id="tu_1", name="memory_store", input={})
    context = tool_context(
        turn, call, stopped=threading.Event(), deadline=float("inf"), emit=lambda text: None
    )
    arguments = {"path": "notes/x.md", "content": "kept"}
    return lambda: registry["memory_store"].call(arguments, context)


def test_the_holder_of_the_lane_stores_a_memory(store):
    store()

    assert MemoryEntry.objects.get().path == "notes/x.md"


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_fenced_while_the_tool_ran_writes_no_memory(store):
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    run_queue.reap()

    with pytest.raises(StaleEpoch):
        store()

    assert not MemoryEntry.objects.exists()
