"""Tests that a worker killed in the middle of a canvas loses nothing, and repeats no effect."""

from __future__ import annotations

from typing import Any

from agents.canvas.revisions import Author, publish, read, save
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.models import Workflow
from sessions_app.models import SessionEvent, ToolExecution
from tests.faults.conftest import eventually
from tools_app.policy.storage import agent_target, save_policy
from tools_app.workspace_tools import tools_of_workspace

SETTINGS = {
    "WORKERS": "1",
    "LEASE_SECONDS": "30",
    "HEARTBEAT_SECONDS": "5",
    "DEMO_DELAY_SECONDS": "0",
}
BODY = {"type": "agent", "config": {"prompt": "say {{index}} {{item}}."}}
NODES = [
    {"id": "start", "type": "trigger"},
    {"id": "each", "type": "loop", "config": {"items": "{{input}}", "body": BODY}},
    {"id": "time", "type": "tool", "config": {"tool": "current_time"}},
    {"id": "end", "type": "output", "config": {"value": "{{nodes.each.output}}"}},
]
LINES = [("start", "each"), ("each", "time"), ("time", "end")]


def run(agent: Any, nodes: list[dict], lines: list[tuple[str, str]], given: Any) -> Workflow:
    edges = [{"source": source, "target": target} for source, target in lines]
    save(agent, nodes=nodes, edges=edges, revision=read(agent).revision, author=Author())
    publish(agent, tools=tools_of_workspace(agent.workspace_id))
    params = {"agent": str(agent.pk), "input": given}
    return start_workflow(agent.workspace_id, "canvas", params, agent_id=agent.pk)[0]


def is_over(made: Workflow) -> bool:
    return Workflow.objects.over().filter(pk=made.pk).exists()


def test_a_canvas_goes_on_after_its_worker_was_killed(workers, supervisor, demo_agent):
    workers.start(**SETTINGS)
    for point in ("step_begun", "step_done", "inside_tool"):
        before = SessionEvent.objects.filter(type="user.message").count()
        workers.kill_at(point)
        made = run(demo_agent, NODES, LINES, ["a", "b"])
        eventually(lambda made=made: is_over(made))
        assert workers.was_killed, f"no worker reached {point}"
        made.refresh_from_db()
        assert (made.status, made.output["output"]) == ("complete", ["0 a.", "1 b."]), point
        asked = SessionEvent.objects.filter(type="user.message").count() - before
        assert asked == 2, f"each item is asked for once, whatever dies at {point}"


def test_code_that_was_running_is_not_run_again(workers, supervisor, demo_agent):
    save_policy(agent_target(demo_agent), {"allowed_tools": ["exec"]})
    workers.start(**SETTINGS)
    workers.kill_at("inside_tool")
    nodes = [NODES[0], {"id": "code", "type": "code", "config": {"code": "def main(data): pass"}}]
    made = run(demo_agent, nodes, [("start", "code")], None)
    eventually(lambda: is_over(made))

    assert workers.was_killed
    assert Workflow.objects.get(pk=made.pk).status == "errored"
    assert [call.state for call in ToolExecution.objects.filter(workflow_id=made.pk)] == ["unknown"]
