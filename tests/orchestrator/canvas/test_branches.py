"""Tests of canvases that fan out: branches wait at the same time and join again."""

from __future__ import annotations

import pytest

from orchestrator.engine.lifecycle import restart, send_event
from orchestrator.engine.recovery import fire_due
from orchestrator.models import Step, Workflow
from sessions_app.models import Run
from tests.orchestrator.canvas.test_runs import answer_agents, draw, go, new_agent, node
from tests.orchestrator.conftest import now, pass_time, serve, states

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def fan_out(agent):
    nodes = [node("start", "trigger"), node("left", "wait", seconds=60),
             node("right", "wait", event="paid"), node("end", "output", value="both")]  # fmt: skip
    draw(agent, nodes, ["start>left", "start>right", "left>end", "right>end"])


def test_two_branches_of_a_fan_out_wait_at_the_same_time(agent, begin):
    fan_out(agent)
    made = begin({"agent": str(agent.pk)}, name="canvas")
    go(made)

    assert states(made) == [
        ("start", "complete", 1), ("left", "waiting", 1), ("right", "waiting", 1),
    ]  # fmt: skip
    send_event(now(made), "paid", 7)
    assert go(made).status == "waiting"
    pass_time(made, 61)
    fire_due()
    assert go(made).output["output"] == "both"


def test_two_agents_of_a_fan_out_work_at_the_same_time(agent, workspace, owner, begin):
    new_agent(workspace, owner, "Helper")
    nodes = [node("start", "trigger"), node("a", "agent", prompt="say one"),
             node("b", "sub_agent", agent="Helper", prompt="say two"),
             node("end", "output")]  # fmt: skip
    draw(agent, nodes, ["start>a", "start>b", "a>end", "b>end"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    serve()

    assert Run.objects.filter(status=Run.Status.QUEUED).count() == 2
    assert set(go(made).output["output"]) == {"a", "b"}


def test_a_run_of_the_sequential_version_finishes_sequentially(agent, begin):
    fan_out(agent)
    made = begin({"agent": str(agent.pk)}, name="canvas")
    Workflow.objects.filter(pk=made.pk).update(version=1)
    go(made)

    assert states(made) == [("start", "complete", 1), ("left", "waiting", 1)]
    pass_time(made, 61)
    fire_due()
    go(made)
    send_event(now(made), "paid", 7)
    assert go(made).output["output"] == "both"


def asks(made):
    """Return the session of each agent node, by node."""
    found = Step.objects.filter(workflow=made, kind="run_session").order_by("position")
    return {one.name: one.detail["session_id"] for one in found}


def ask(name, **config):
    return node(name, "agent", prompt=f"say {name}", **config)


def test_parallel_nodes_of_one_agent_run_at_the_same_time_in_separate_sessions(agent, begin):
    nodes = [node("start", "trigger"), ask("first"), ask("left"), ask("right"), ask("last")]
    draw(agent, nodes, [
        "start>first", "first>left", "first>right", "left>last", "right>last",
    ])  # fmt: skip
    made = begin({"agent": str(agent.pk)}, name="canvas")
    serve()
    answer_agents()
    serve()

    assert Run.objects.filter(status=Run.Status.QUEUED).count() == 2
    assert go(made).status == "complete"
    sessions = asks(made)
    assert sessions["first"] == sessions["last"], "what follows goes on in the same conversation"
    assert len(set(sessions.values())) == 3


def test_exclusive_branches_stay_in_the_conversation_of_the_run(agent, begin):
    nodes = [node("start", "trigger"), ask("before"),
             node("big", "condition", expression="input.n > 1"), ask("yes"), ask("no")]  # fmt: skip
    draw(agent, nodes, ["start>before", "before>big", "big:true>yes", "big:false>no"])
    made = begin({"agent": str(agent.pk), "input": {"n": 2}}, name="canvas")
    assert go(made).status == "complete"

    assert asks(made).keys() == {"before", "yes"}
    assert len(set(asks(made).values())) == 1


def test_a_node_can_choose_its_conversation(agent, begin):
    nodes = [node("start", "trigger"), ask("a", conversation="run"),
             ask("b", conversation="run"), ask("c", conversation="own")]  # fmt: skip
    draw(agent, nodes, ["start>a", "start>b", "b>c"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    assert go(made).status == "complete"

    sessions = asks(made)
    assert sessions["a"] == sessions["b"] != sessions["c"]


def test_a_conversation_of_a_node_starts_over_with_a_restart(agent, begin):
    nodes = [node("start", "trigger"), ask("a", conversation="own")]
    draw(agent, nodes, ["start>a"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    go(made)
    before = asks(made)
    restart(made)
    assert go(made).status == "complete"

    assert asks(made) != before
