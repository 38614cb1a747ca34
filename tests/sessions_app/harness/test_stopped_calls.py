"""Tests of what a stop does to open calls."""

from __future__ import annotations

import threading

import pytest
from django.utils import timezone

from sessions_app.harness import execution
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import ToolExecution
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.lanes.test_run_queue import send
from tests.sessions_app.stage import WORDS, Note, call, say
from tools_app.registry import Category, registry, tool

pytestmark = pytest.mark.django_db


def test_a_stop_writes_a_result_for_every_open_call(session):
    run = send(session).run_id
    run_queue.claim(session.pk, OWNER)
    begun = {"workspace_id": session.workspace_id, "session": session, "run_id": run}
    for name, started in (("exec", timezone.now()), ("write", None)):
        ToolExecution.objects.create(
            **begun, tool_use_id=f"tu_{name}", name=name, input={}, started_at=started
        )

    run_queue.stop(session.pk)

    results = session.events.filter(type="agent.tool_result").order_by("seq")
    told = {event.payload["name"]: event.payload for event in results}
    assert {name: payload["state"] for name, payload in told.items()} == {
        "exec": "cancelled",
        "write": "cancelled",
    }
    assert told["exec"]["duration_ms"] >= 0
    assert told["write"]["duration_ms"] is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("stage_tools")
def test_a_tool_that_ignores_a_stop_does_not_hold_its_lane(session, principal, script, monkeypatch):
    begun, end, sign = threading.Event(), threading.Event(), StopSignal()
    registry.pop("wait")

    @tool(category=Category.TIME, seconds=600)
    def wait(arguments: Note, context) -> str:
        """Wait and ignore stop signals."""
        begun.set()
        end.wait(60)
        return "over"

    monkeypatch.setattr(execution, "GRACE_SECONDS", 0.0)
    script([call("wait")], WORDS)
    say(session, principal)
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    lane = threading.Thread(target=run, args=(claim, OWNER, sign), daemon=True)
    lane.start()
    assert begun.wait(30)

    sign.send("interrupted")

    lane.join(30)
    assert not lane.is_alive()
    end.set()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("stage_tools")
@pytest.mark.parametrize(("read_only", "state"), [(False, "unknown"), (True, "error")])
def test_a_call_that_times_out_is_unknown_unless_its_tool_only_reads(
    session, principal, script, monkeypatch, read_only, state
):
    end = threading.Event()
    registry.pop("wait")

    @tool(category=Category.TIME, seconds=0.1, read_only=read_only)
    def wait(arguments: Note, context) -> str:
        """Wait and ignore stop signals."""
        end.wait(60)
        return "over"

    monkeypatch.setattr(execution, "GRACE_SECONDS", 0.0)
    script([call("wait")], WORDS)
    say(session, principal)

    serve(session.pk)

    end.set()
    assert ToolExecution.objects.get().state == state
