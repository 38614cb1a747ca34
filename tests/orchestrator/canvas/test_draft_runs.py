"""Tests of test runs of a draft: who may start them, pinned outputs, and running from one node."""

from __future__ import annotations

import pytest

from agents.canvas.revisions import Author, save
from agents.exceptions import CanvasConflict
from core.exceptions import Conflict, Invalid, InvalidFields
from orchestrator.canvas.draft_runs import start_test
from orchestrator.canvas.node_states import detail_of
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.models import Workflow
from sessions_app.models import Session, SessionEvent
from tenants.models import ApiKey
from tests.conftest import key_client
from tests.orchestrator.canvas.test_runs import answer_agents, edges, new_agent, node
from tests.orchestrator.conftest import now, serve, steps

pytestmark = pytest.mark.django_db

SHAPE = [
    node("start", "trigger"),
    node("ask", "agent", prompt="say I am {{input.name}}."),
    node("ok", "condition", expression='nodes.ask.output contains "Ada"'),
    node("end", "output", value="{{nodes.ask.output}}!"),
    node("other", "output", value="other"),
]
LINES = ["start>ask", "ask>ok", "ok:true>end", "ok:false>other"]


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def sketch(agent, nodes=SHAPE, lines=LINES, revision=0):
    return save(agent, nodes=nodes, edges=edges(*lines), revision=revision, author=Author())


def finish(made):
    for _ in range(6):
        serve()
        answer_agents()
    return now(made)


def trial(principal, agent, **more):
    facts = {"input": {"name": "Ada"}, "revision": 1, **more}
    return start_test(principal, agent, **facts)


def test_a_person_who_builds_tests_the_draft_without_publishing_it(principal, agent):
    sketch(agent)
    done = finish(trial(principal, agent))

    assert done.output["output"] == "I am Ada.!"
    assert done.params["test"] is True
    with pytest.raises(Conflict):
        start_workflow(agent.workspace_id, "canvas", {"agent": str(agent.pk)})


def test_a_key_that_may_only_run_cannot_test_a_draft(workspace, agent):
    sketch(agent)
    body = {"input": None, "revision": 1}
    path = f"/api/v1/agents/{agent.pk}/canvas/test/"
    client = key_client(workspace, ApiKey.Scope.RUN)
    assert client.post(path, body, format="json").status_code == 403
    assert not Workflow.objects.exists()


@pytest.mark.parametrize("hidden", [{"test": True}, {"given": {"ask": "x"}}, {"only": ["end"]}])
def test_no_door_can_start_a_run_with_outputs_of_its_own(agent, hidden):
    sketch(agent)
    with pytest.raises(InvalidFields):
        start_workflow(agent.workspace_id, "canvas", {"agent": str(agent.pk), **hidden})


def test_only_the_revision_that_the_person_sees_is_tested(principal, agent):
    sketch(agent)
    sketch(agent, SHAPE[:4], LINES[:3], revision=1)
    with pytest.raises(CanvasConflict):
        trial(principal, agent, revision=1)


def test_a_pinned_node_does_not_run_in_a_test_and_runs_when_published(principal, agent, api):
    pinned = {**SHAPE[1], "pin": {"output": "pinned Ada"}}
    sketch(agent, [SHAPE[0], pinned, *SHAPE[2:]])
    done = finish(trial(principal, agent))

    assert done.output["output"] == "pinned Ada!"
    assert not Session.objects.exists()
    assert detail_of(done, "ask")["is_given"] is True
    base = f"/api/v1/agents/{agent.pk}/canvas/"
    assert api.post(f"{base}publish/", {}, format="json").status_code == 200
    started = api.post(f"{base}run/", {"input": {"name": "Ada"}}, format="json").json()
    run = finish(Workflow.objects.get(pk=started["workflow_id"]))
    assert run.output["output"] == "I am Ada.!"


def test_a_run_from_one_node_keeps_the_outputs_before_it(principal, agent):
    sketch(agent)
    first = finish(trial(principal, agent))
    changed = [*SHAPE[:3], node("end", "output", value="mended {{nodes.ask.output}}"), SHAPE[4]]
    sketch(agent, changed, revision=1)
    done = finish(trial(principal, agent, revision=2, begin="end", before=first.pk))

    assert done.output["output"] == "mended I am Ada."
    assert Session.objects.count() == 1
    assert {step.name for step in steps(done)} == {"start", "ask", "ok", "end", "other/skipped"}


def test_what_reads_the_outputs_of_an_earlier_run_knows_where_they_come_from(principal, agent):
    shape = [*SHAPE[:2], node("next", "agent", prompt="say {{nodes.ask.output}}"), *SHAPE[3:4]]
    lines = ["start>ask", "ask>next", "next>end"]
    sketch(agent, shape, lines)
    first = finish(trial(principal, agent))
    earlier = Session.objects.get()
    finish(trial(principal, agent, begin="next", before=first.pk))

    message = SessionEvent.objects.filter(type="user.message").order_by("created_at").last()
    assert message.session_id != earlier.pk
    assert message.payload["from_sessions"] == [str(earlier.pk)]


def test_running_from_a_node_needs_something_to_work_with(principal, agent):
    sketch(agent)
    with pytest.raises(Invalid, match="Run the canvas first"):
        trial(principal, agent, begin="end")


def test_a_node_shows_what_it_received_and_returned(principal, agent, api):
    sketch(agent)
    done = finish(trial(principal, agent))
    base = f"/api/v1/agents/{agent.pk}/canvas/runs/{done.pk}/"
    run = api.get(base).json()
    ask = api.get(f"{base}nodes/ask/").json()
    ok = api.get(f"{base}nodes/ok/").json()

    assert (run["is_test"], run["status"]) == (True, "complete")
    assert {one["node"]: one["status"] for one in run["nodes"]}["other"] == "skipped"
    assert (ask["input"], ask["output"]) == ("say I am Ada.", "I am Ada.")
    assert ask["session_id"] == str(Session.objects.get().pk)
    assert (ok["input"], ok["output"]) == ({"nodes.ask.output": "I am Ada."}, True)
    assert api.get(f"{base}nodes/nothing/").status_code == 404


def test_a_node_that_waits_for_a_person_says_which_step_to_answer(principal, agent, api):
    shape = [node("start", "trigger"), node("ok", "approval", message="Go?")]
    sketch(agent, shape, ["start>ok"])
    run = finish(trial(principal, agent))
    shown = api.get(f"/api/v1/agents/{agent.pk}/canvas/runs/{run.pk}/nodes/ok/").json()

    assert (shown["status"], shown["approval_step"]) == ("waiting_approval", "ok")
    assert (shown["input"], shown["has_output"]) == ("Go?", False)
