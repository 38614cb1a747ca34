"""Tests of published canvases as durable workflows: node types, branches, joins, crashes."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agents.canvas.revisions import Author, publish, save
from agents.definitions import create_agent
from agents.exceptions import CanvasInvalid
from core.exceptions import Conflict, Invalid, NotFound
from orchestrator.engine import store
from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.lifecycle import send_event, start_workflow
from orchestrator.engine.recovery import fire_due, recover
from orchestrator.engine.waits import settle_run
from sessions_app.models import Run, Session
from tests.orchestrator.conftest import claim, now, pass_time, serve, states, steps
from tests.orchestrator.engine.test_recovery import lose
from tests.sessions_app.conftest import serve as serve_lane
from tools_app.policy.storage import agent_target, save_policy
from tools_app.workspace_tools import tools_of_workspace

pytestmark = pytest.mark.django_db


def new_agent(workspace, owner, name):
    fields = {"name": name, "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def node(id, type, **config):
    return {"id": id, "type": type, "config": config}


def edges(*pairs):
    """Parse edges written as `a>b` or `a:true>b`."""
    found = []
    for pair in pairs:
        source, target = pair.split(">")
        source, _, handle = source.partition(":")
        found.append({"source": source, "target": target, "handle": handle})
    return found


def draw(agent, nodes, lines, revision=0):
    save(agent, nodes=nodes, edges=edges(*lines), revision=revision, author=Author())
    return publish(agent, tools=tools_of_workspace(agent.workspace_id))


def answer_agents():
    """Serve every queued run with the demo provider and settle its step."""
    for run in Run.objects.filter(status=Run.Status.QUEUED):
        serve_lane(run.session_id)
        settle_run(run.pk)


def go(made, **given):
    serve()
    for _ in range(10):
        answer_agents()
        if not serve():
            break
    return now(made)


EVERY_NODE_TYPE = [
    node("start", "trigger"),
    node("time", "tool", tool="current_time", input={"zone": "{{input.zone}}"}),
    node("ask", "agent", prompt="Say hello to {{input.name}}"),
    node("big", "condition", expression='input.count > 3 and not (input.name == "")'),
    node("ok", "approval", message="Tell {{input.name}}?"),
    node("other", "sub_agent", agent="Helper", prompt="Greet {{input.name}}"),
    node("never", "output", value="small"),
    node("rest", "wait", seconds=60),
    node("paid", "wait", event="paid"),
    node("end", "output", value={"who": "{{input.name}}", "time": "{{nodes.time.output}}",
                                 "paid": "{{nodes.paid.output.sum}}",
                                 "by": "{{nodes.ok.output.by}}"}),
]  # fmt: skip
EVERY_EDGE = ["start>time", "start>ask", "time>big", "ask>big", "big:true>ok", "big:false>never",
        "ok>other", "other>rest", "rest>paid", "paid>end"]  # fmt: skip


def test_a_graph_with_every_type_of_node_runs_to_its_output(
    agent, workspace, owner, begin, principal
):
    new_agent(workspace, owner, "Helper")
    draw(agent, EVERY_NODE_TYPE, EVERY_EDGE)
    given = {"zone": "UTC", "name": "Ada", "count": 4}
    made = begin({"agent": str(agent.pk), "input": given}, name="canvas", agent_id=agent.pk)

    assert go(made).status == "waiting_approval"
    answer_approval(now(made), principal, allow=True)
    assert go(made).status == "waiting"
    pass_time(made, 61)
    fire_due()
    go(made)
    send_event(now(made), "paid", {"sum": 7})
    done = go(made)

    assert (done.status, done.error) == ("complete", None)
    said = done.output["output"]
    assert (said["who"], said["paid"], said["by"]) == ("Ada", 7, "Olive Owner")
    assert "(UTC)" in said["time"]
    assert done.output["outputs"] == {"end": said}
    assert ("never/skipped", "complete", 1) in states(made)


def test_a_join_receives_the_output_of_every_branch(agent, begin):
    nodes = [node("start", "trigger"), node("a", "condition", expression="true"),
             node("b", "condition", expression="input.x contains 'l'"),
             node("end", "output")]  # fmt: skip
    draw(agent, nodes, ["start>a", "start>b", "a:true>end", "b:true>end"])
    made = begin({"agent": str(agent.pk), "input": {"x": "hello"}}, name="canvas")

    assert go(made).output["output"] == {"a": True, "b": True}


def test_a_join_runs_when_one_of_its_branches_was_not_taken(agent, begin):
    nodes = [node("start", "trigger"), node("if", "condition", expression="input.x == 1"),
             node("yes", "wait", seconds=0), node("no", "wait", seconds=0),
             node("end", "output", value="{{input.x}}")]  # fmt: skip
    lines = ["start>if", "if:true>yes", "if:false>no", "yes>end", "no>end"]
    draw(agent, nodes, lines)
    made = begin({"agent": str(agent.pk), "input": {"x": 1}}, name="canvas")
    serve()
    fire_due()

    assert go(made).output["output"] == 1
    assert "no/skipped" in [one.name for one in steps(made)]


def test_a_later_publication_does_not_change_a_running_workflow(agent, begin):
    shape = [node("start", "trigger"), node("rest", "wait", seconds=60)]
    lines = ["start>rest", "rest>end"]
    draw(agent, [*shape, node("end", "output", value="old")], lines)
    made = begin({"agent": str(agent.pk)}, name="canvas")
    serve()
    draw(agent, [*shape, node("end", "output", value="new")], lines, revision=1)
    pass_time(made, 61)
    fire_due()

    assert go(made).output["output"] == "old"
    assert made.params["revision"] == 1


def test_a_draft_of_a_canvas_never_runs(agent, begin):
    shape = [node("start", "trigger"), node("end", "output", value="published")]
    with pytest.raises(Conflict):
        begin({"agent": str(agent.pk)}, name="canvas")
    draw(agent, shape, ["start>end"])
    changed = [shape[0], node("end", "output", value="draft")]
    save(agent, nodes=changed, edges=edges("start>end"), revision=1, author=Author())

    with pytest.raises(Invalid):
        begin({"agent": str(agent.pk), "revision": 2}, name="canvas")


def test_the_canvas_of_another_workspace_is_not_found(agent, foreign_workspace):
    draw(agent, [node("start", "trigger"), node("end", "output")], ["start>end"])
    with pytest.raises(NotFound):
        start_workflow(foreign_workspace.pk, "canvas", {"agent": str(agent.pk)})


def test_an_invalid_canvas_is_refused_before_it_starts_and_names_its_nodes(
    agent, workspace, owner, begin
):
    helper = new_agent(workspace, owner, "Helper")
    nodes = [node("start", "trigger"), node("x", "sub_agent", agent="Helper", prompt="hi"),
             node("y", "tool", tool="sessions_spawn", input={"task": "t"})]  # fmt: skip
    draw(agent, nodes, ["start>x", "x>y"])
    type(helper).objects.filter(pk=helper.pk).update(archived_at=helper.created_at)

    with pytest.raises(CanvasInvalid) as caught:
        begin({"agent": str(agent.pk)}, name="canvas")
    found = {(one["field"], one["code"]) for one in caught.value.errors}
    assert found == {("x", "unknown_agent"), ("y", "unfit_tool")}


def one_tool(agent, tool, **given):
    nodes = [node("start", "trigger"), node("t", "tool", tool=tool, input=given)]
    draw(agent, nodes, ["start>t"])


def test_a_denied_tool_fails_its_node(agent, begin):
    one_tool(agent, "current_time")
    save_policy(agent_target(agent.pk), {"denied_tools": ["current_time"]})
    done = go(begin({"agent": str(agent.pk)}, name="canvas"))

    assert done.status == "errored"
    assert done.error["step"] == "t/policy"
    assert done.error["message"].startswith("Not allowed: ")


def test_the_policy_of_the_agent_applies_to_redirects(agent, begin, httpserver, settings):
    settings.EGRESS_ALLOWED_PRIVATE = [f"web=localhost:{httpserver.port}"]
    httpserver.expect_request("/old").respond_with_data(
        "", status=302, headers={"Location": "/inner"}
    )
    one_tool(agent, "web_fetch", url=httpserver.url_for("/old"))
    save_policy(agent_target(agent.pk), {"denied_tools": ["web_fetch(*/inner)"]})

    go(begin({"agent": str(agent.pk)}, name="canvas"))

    assert {request.path for request, _ in httpserver.log} == {"/old"}


def test_a_tool_that_asks_waits_for_a_person_and_does_not_run_when_rejected(
    agent, begin, principal
):
    one_tool(agent, "exec", command="echo hi")
    made = begin({"agent": str(agent.pk)}, name="canvas")
    assert go(made).status == "waiting_approval"
    asked = steps(made)[-1]
    assert asked.name == "t/approval"
    assert asked.detail["details"] == {"tool": "exec", "input": {"command": "echo hi"}}

    answer_approval(now(made), principal, allow=False, note="no commands")
    done = go(made)
    assert (done.status, done.error["code"]) == ("errored", "rejected")
    assert [one.name for one in steps(made)] == ["start", "t/policy", "t/approval"]


def test_a_rejection_follows_the_rejected_edge_if_there_is_one(agent, begin, principal):
    nodes = [node("start", "trigger"), node("ok", "approval", message="Go?"),
             node("yes", "output", value="yes"), node("no", "output", value="no")]  # fmt: skip
    draw(agent, nodes, ["start>ok", "ok>yes", "ok:rejected>no"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    serve()
    answer_approval(now(made), principal, allow=False)

    assert go(made).output["outputs"] == {"no": "no"}


def test_a_canvas_whose_worker_is_killed_continues_where_it_was(agent, begin):
    nodes = [node("start", "trigger"), node("a", "condition", expression="true"),
             node("time", "tool", tool="current_time"), node("end", "output")]  # fmt: skip
    draw(agent, nodes, ["start>a", "a:true>time", "time>end"])
    made = begin({"agent": str(agent.pk)}, name="canvas")
    held = claim()
    # The worker's progress: the first node is complete, the second has started.
    place = {"nth": 1, "kind": "do", "attempt": 1, "timeout": 60}
    store.advance(
        held, begun={"id": uuid4(), "position": 0, "name": "start", "branch": "start", **place}
    )
    store.advance(
        held,
        ended={"position": 0, "attempt": 1, "status": "complete"},
        outcome="null",
        begun={"id": uuid4(), "position": 1, "name": "a", "branch": "a", **place},
    )
    lose(held)
    recover()
    assert go(made).status == "complete"

    assert states(made)[:2] == [("start", "complete", 1), ("a", "complete", 2)]


def test_the_agents_and_tools_of_a_canvas_share_one_session(agent, begin):
    nodes = [node("start", "trigger"), node("t", "tool", tool="current_time"),
             node("ask", "agent", prompt="It is {{nodes.t.output}}")]  # fmt: skip
    draw(agent, nodes, ["start>t", "t>ask"])
    made = begin({"agent": str(agent.pk)}, name="canvas")

    assert go(made).status == "complete"
    assert Session.objects.filter(metadata__workflow_id=str(made.pk)).count() == 1
