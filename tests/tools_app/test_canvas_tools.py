"""Tests of the canvas tools, in real runs of a session and called directly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.canvas import revisions
from agents.canvas.graph import validate
from agents.canvas.revisions import Author
from agents.models import CanvasRevision
from agents.providers.base import TextDelta, ToolCall
from core.exceptions import StaleEpoch
from sessions_app.models import ToolExecution
from tests.sessions_app.conftest import agent, principal, script, serve, session
from tests.sessions_app.stage import say
from tools_app.exceptions import ToolFailed
from tools_app.policy.evaluation import Decision, EffectivePolicy
from tools_app.registry import ToolContext, registry
from tools_app.workspace_tools import tools_of_workspace

__all__ = ["agent", "principal", "script", "session"]
NAMES = ("update_workflow", "add_node", "connect_nodes")


def call(name: str, nth: str, /, **arguments) -> ToolCall:
    return ToolCall(call_id=nth, name=name, arguments=arguments)


@pytest.mark.django_db(transaction=True)
def test_an_agent_edits_its_own_canvas(session, principal, agent, script, monkeypatch):
    allow = Decision(decision="allow", decided_by="test")
    policy = EffectivePolicy(dict.fromkeys(NAMES, allow))
    monkeypatch.setattr("tools_app.policy.effective.Binding.policy", lambda _: policy)
    script(
        [call("update_workflow", "c1", nodes=[{"id": "go", "type": "trigger"}], revision=0)],
        [call("add_node", "c2", id="end", type="output", after="go")],
        [call("connect_nodes", "c3", source="end", target="mars")],
        [TextDelta(text="Drawn.")],
    )
    sent = say(session, principal)
    serve(session.pk)
    canvas = revisions.read(agent)

    assert (
        canvas.revision,
        validate(canvas.graph, tools=tools_of_workspace(agent.workspace_id)),
    ) == (2, [])
    wrote = CanvasRevision.objects.get(number=2)
    assert (wrote.session_id, wrote.run_id, wrote.created_by_id) == (session.pk, sent.run_id, None)
    states = ToolExecution.objects.order_by("created_at").values_list("state", "error")
    assert [state for state, _ in states] == ["completed", "completed", "error"]
    assert "There is no node 'mars'" in states[2][1]


@pytest.fixture
def context(session, agent) -> ToolContext:
    return ToolContext(
        workspace_id=session.workspace_id,
        session_id=session.pk,
        agent_id=agent.pk,
        run_id=session.pk,
        call_id="call_1",
        sandbox=None,
    )


def test_a_repeated_call_writes_once(context, agent):
    for _ in range(2):
        registry["add_node"].call({"id": "go", "type": "trigger"}, context)
    assert revisions.read(agent).revision == 1


def test_a_stale_update_is_refused_and_the_model_is_shown_the_newer_draft(context, agent):
    nodes = [{"id": "mine", "type": "trigger"}]
    revisions.save(agent, nodes=nodes, edges=[], revision=0, author=Author())
    with pytest.raises(ToolFailed, match=r"revision 1.*mine"):
        registry["update_workflow"].call(
            {"nodes": [{"id": "a", "type": "x"}], "revision": 0}, context
        )
    with pytest.raises(ToolFailed, match="confirm_empty"):
        registry["update_workflow"].call({"nodes": [], "revision": 1}, context)
    assert revisions.read(agent).revision == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"id": "a b", "type": "trigger"}, "nodes.0.id"),
        ({"id": "a", "type": "trigger", "after": "gone"}, "There is no node 'gone'"),
    ],
)
def test_an_invalid_node_is_reported_to_the_model(context, arguments, complaint):
    with pytest.raises(ToolFailed, match=complaint):
        registry["add_node"].call(arguments, context)


def test_a_worker_that_lost_its_lease_writes_nothing(context, agent):
    def lost() -> None:
        raise StaleEpoch

    with pytest.raises(StaleEpoch):
        registry["add_node"].call({"id": "go", "type": "trigger"}, replace(context, fence=lost))
    assert revisions.read(agent).revision == 0
