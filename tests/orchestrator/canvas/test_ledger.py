"""Tests that a canvas's tool calls are in the ledger before they run, and unknown when lost."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest
from django.utils import timezone
from pydantic import BaseModel

from agents.providers.base import TextDelta, Usage
from core.exceptions import Conflict
from orchestrator.canvas.tool_node import close_lost_calls
from orchestrator.engine import store
from orchestrator.engine.lifecycle import restart, terminate
from orchestrator.engine.recovery import recover
from orchestrator.models import Step
from orchestrator.supervisor import duties
from sessions_app import ledger
from sessions_app.context.taint import is_tainted
from sessions_app.harness import crash_points
from sessions_app.harness.turn import load_turn
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.ledger import tool_use
from sessions_app.models import Session, SessionEvent, ToolExecution
from tests.conftest import key_client
from tests.orchestrator.canvas.test_runs import agent, answer_agents, draw, go, node, one_tool
from tests.orchestrator.conftest import claim, now, serve, serve_one
from tests.orchestrator.engine.test_branches import Killed, dies_at
from tests.orchestrator.engine.test_recovery import lose
from tests.sessions_app.conftest import OWNER, script
from tests.sessions_app.parking import park
from tools_app.exceptions import OutcomeUnknown
from tools_app.policy.storage import agent_target, save_policy
from tools_app.registry import Category, registry, tool

pytestmark = pytest.mark.django_db
__all__ = ["agent", "script"]


class NoArguments(BaseModel):
    pass


@pytest.fixture
def effects():
    """Register a tool that acts and one that reads; return the list of their calls."""
    known, done = dict(registry), []

    @tool(category=Category.TIME)
    def ring_once(arguments: NoArguments, context) -> str:
        """Act once."""
        done.append("ring_once")
        if "break" in done:
            raise OutcomeUnknown("No answer came.")
        return "acted"

    @tool(category=Category.TIME, read_only=True)
    def look_twice(arguments: NoArguments, context) -> str:
        """Look."""
        done.append("look_twice")
        return "seen"

    yield done
    registry.clear()
    registry.update(known)


def call_of(made):
    return ToolExecution.objects.get(workflow_id=made.pk)


def begun(agent, begin, name):
    one_tool(agent, name)
    save_policy(agent_target(agent.pk), {"approved_tools": ["*"]})
    return begin({"agent": str(agent.pk)}, name="canvas")


def kill_inside_the_call(made, monkeypatch):
    held = claim()
    with monkeypatch.context() as watching:
        watching.setattr(crash_points, "on_reach", dies_at("inside_tool"))
        with pytest.raises(Killed):
            serve_one(held)
    lose(held)


def test_a_call_of_a_canvas_is_in_the_ledger_and_in_the_analytics(agent, begin, effects, workspace):
    made = begun(agent, begin, "ring_once")
    assert go(made).status == "complete"

    call = call_of(made)
    assert (call.name, call.state, call.output, call.attempts) == (
        "ring_once",
        "completed",
        "acted",
        1,
    )
    assert call.run_id is None
    assert call.session.agent_id == agent.pk
    assert call.started_at <= call.finished_at
    (used,) = tool_use(workspace.pk, days=1)
    assert (used.name, used.calls, used.completed) == ("ring_once", 1, 1)


def test_the_ledger_shows_calls_of_a_workflow_over_rest(agent, begin, effects, workspace):
    made = begun(agent, begin, "ring_once")
    go(made)
    api = key_client(workspace)
    listed = api.get(f"/api/v1/tools/executions/?workflow={made.pk}").json()["results"]

    assert [(one["workflow_id"], one["run_id"]) for one in listed] == [(str(made.pk), None)]
    assert api.get(f"/api/v1/tools/executions/?workflow={uuid4()}").json()["results"] == []


def test_a_lost_call_with_an_effect_is_unknown_and_not_repeated(agent, begin, effects, monkeypatch):
    made = begun(agent, begin, "ring_once")
    kill_inside_the_call(made, monkeypatch)
    assert call_of(made).state == "running"
    recover()
    serve()

    assert effects == []
    assert call_of(made).state == "unknown"
    assert (now(made).status, now(made).error["code"]) == ("errored", "call_unknown")
    assert "restart from this step" in now(made).error["message"]


def test_a_step_lost_before_its_ledger_entry_existed_is_not_repeated(agent, begin, effects):
    made = begun(agent, begin, "ring_once")
    held = claim()
    place = {"nth": 1, "kind": "do", "attempt": 1, "timeout": 60}
    for position, name in enumerate(["start", "t/policy"]):
        branch = name.partition("/")[0]
        body = {"id": uuid4(), "position": position, "name": name, "branch": branch, **place}
        store.advance(held, begun=body)
        ended = {"position": position, "attempt": 1, "status": "complete"}
        outcome = '{"decision": "allow", "seconds": 60, "title": "", "decided_by": ""}'
        store.advance(held, ended=ended, outcome=outcome)
    store.advance(held, begun={"id": uuid4(), "position": 2, "name": "t", "branch": "t", **place})
    lose(held)
    recover()
    serve()

    assert effects == []
    assert now(made).error["code"] == "call_unknown"


def test_a_lost_read_only_call_is_repeated(agent, begin, effects, monkeypatch):
    made = begun(agent, begin, "look_twice")
    kill_inside_the_call(made, monkeypatch)
    recover()
    assert go(made).status == "complete"

    assert effects == ["look_twice"]
    assert (call_of(made).state, call_of(made).attempts) == ("completed", 2)


def test_a_finished_call_is_not_repeated_when_only_its_step_was_lost(
    agent, begin, effects, monkeypatch
):
    made = begun(agent, begin, "ring_once")
    held = claim()
    with monkeypatch.context() as watching:
        watching.setattr(crash_points, "on_reach", dies_at("step_done", times=3))
        with pytest.raises(Killed):
            serve_one(held)
    lose(held)
    recover()
    done = go(made)

    assert effects == ["ring_once"]
    assert done.output["output"] == "acted"


def test_a_call_without_an_answer_is_unknown(agent, begin, effects):
    effects.append("break")
    made = begun(agent, begin, "ring_once")
    assert go(made).error["code"] == "call_unknown"

    assert (call_of(made).state, effects) == ("unknown", ["break", "ring_once"])


def test_a_denied_call_is_in_the_ledger_too(agent, begin, effects):
    made = begun(agent, begin, "ring_once")
    save_policy(agent_target(agent.pk), {"denied_tools": ["ring_once"]})
    go(made)

    assert (call_of(made).state, call_of(made).decision, effects) == ("denied", "deny", [])


def test_verifying_a_call_of_a_workflow_writes_no_event_to_the_session(
    agent, begin, effects, monkeypatch, principal
):
    made = begun(agent, begin, "ring_once")
    kill_inside_the_call(made, monkeypatch)
    recover()
    serve()
    before = SessionEvent.objects.count()
    with pytest.raises(Conflict, match="from this step"):
        ledger.retry(call_of(made), principal)
    ledger.verify(call_of(made), principal, took_effect=True, note="I looked")

    assert call_of(made).state == "completed"
    assert SessionEvent.objects.count() == before
    restart(made, from_step="t")
    assert go(made).status == "complete"
    assert effects == ["ring_once"], "asked for by a person, it is another call"


def test_the_lane_of_the_session_leaves_the_calls_of_its_workflow_alone(
    agent, begin, effects, script, monkeypatch
):
    """An agent that works beside a call neither resumes nor ends that call."""
    script([TextDelta(text="hello"), Usage(input_tokens=1, output_tokens=1)])
    nodes = [node("start", "trigger"), node("ask", "agent", prompt="hi"),
             node("t", "tool", tool="ring_once")]  # fmt: skip
    draw(agent, nodes, ["start>ask", "start>t"])
    save_policy(agent_target(agent.pk), {"approved_tools": ["*"]})
    made = begin({"agent": str(agent.pk)}, name="canvas")
    kill_inside_the_call(made, monkeypatch)
    session = Session.objects.get()
    assert call_of(made).session_id == session.pk
    answer_agents()

    assert call_of(made).state == "running"
    assert not session.events.filter(type="agent.tool_result").exists()
    assert not ToolExecution.objects.open().exists()


def test_a_call_of_a_workflow_does_not_count_for_a_turn_that_waits_beside_it(
    agent, begin, effects, workspace
):
    made = begun(agent, begin, "ring_once")
    serve()
    session = Session.objects.get()
    park(session, "tu_1")
    ToolExecution.objects.filter(workflow_id=made.pk).update(created_at=timezone.now())
    said = {"tool_use_id": "tu_1", "decision": "deny"}
    body = {"type": "user.tool_confirmation", "payload": said}
    key_client(workspace).post(f"/api/v1/sessions/{session.pk}/events/", body, format="json")
    resumed = run_queue.claim(session.pk, OWNER)

    assert load_turn(resumed, OWNER, StopSignal()).earlier_tool_calls == 1
    calls = ToolExecution.objects.filter(workflow_id=made.pk)
    calls.update(workflow_id=None, run_id=resumed.run_id)
    read_again = replace(resumed, loaded=None)
    assert load_turn(read_again, OWNER, StopSignal()).earlier_tool_calls == 2


def test_stopping_the_session_leaves_the_call_of_its_workflow_alone(
    agent, begin, effects, monkeypatch
):
    made = begun(agent, begin, "ring_once")
    kill_inside_the_call(made, monkeypatch)
    session = Session.objects.get()
    Session.objects.update(status="requires_action")
    run_queue.stop(session.pk)

    assert call_of(made).state == "running"


def test_the_supervisor_closes_calls_of_workflows_that_have_ended(
    agent, begin, effects, monkeypatch
):
    made = begun(agent, begin, "ring_once")
    kill_inside_the_call(made, monkeypatch)
    terminate(made)
    assert close_lost_calls() == 0, "who was told to stop may still say what it did"
    monkeypatch.setattr("orchestrator.canvas.tool_node.LEAVE_SECONDS", -1.0)
    assert close_lost_calls() == 1

    assert call_of(made).state == "unknown"
    assert close_lost_calls in [duty.work for duty in duties()]


def test_output_of_a_canvas_tool_taints_the_sessions_that_receive_it(agent, begin, effects, script):
    """Otherwise a fetched page could be stored as trusted memory."""
    script(*([[TextDelta(text="ok"), Usage(input_tokens=1, output_tokens=1)]] * 2))
    nodes = [node("start", "trigger"), node("t", "tool", tool="look_twice"),
             node("a", "agent", prompt="{{nodes.t.output}}"),
             node("b", "agent", prompt="{{nodes.t.output}}")]  # fmt: skip
    draw(agent, nodes, ["start>t", "t>a", "t>b"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    assert go(made).status == "complete"
    told = set(Step.objects.filter(kind="run_session").values_list("detail__session_id", flat=True))
    assert len(told) == 2
    assert not any(is_tainted(session_id) for session_id in told)

    ToolExecution.objects.update(name="web_fetch")
    assert all(is_tainted(session_id) for session_id in told)
