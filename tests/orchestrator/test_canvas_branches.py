"""A canvas that fans out: its branches wait at the same time, and meet again."""

from __future__ import annotations

import pytest

from orchestrator.lifecycle import send_event
from orchestrator.models import Workflow
from orchestrator.recovery import fire_due
from sessions_app.models import Run
from tests.orchestrator.conftest import now, pass_time, serve, states
from tests.orchestrator.test_canvas_runs import draw, go, new_agent, node

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


def test_a_run_that_began_in_turn_ends_in_turn(agent, begin):
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
