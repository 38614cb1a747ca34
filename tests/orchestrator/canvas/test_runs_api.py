"""Tests of canvas runs over REST and of their frames: started, pinned, shown by node."""

from __future__ import annotations

import pytest

from orchestrator.consumers import frame_of
from orchestrator.models import Workflow
from tenants.models import ApiKey
from tests.conftest import key_client
from tests.orchestrator.canvas.test_runs import draw, new_agent, node
from tests.orchestrator.conftest import serve

pytestmark = pytest.mark.django_db

SHAPE = [node("start", "trigger"), node("if", "condition", expression="input.go"),
         node("ok", "approval", message="Go?"), node("no", "output", value="no")]  # fmt: skip
EDGES = ["start>if", "if:true>ok", "if:false>no"]


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def base(agent):
    return f"/api/v1/agents/{agent.pk}/canvas/"


def test_a_started_canvas_shows_the_status_of_every_node(api, agent):
    draw(agent, SHAPE, EDGES)
    made = api.post(f"{base(agent)}run/", {"input": {"go": True}}, format="json")
    assert (made.status_code, made.data["revision"]) == (202, 1)
    serve()
    (run,) = api.get(f"{base(agent)}runs/").json()["results"]

    assert run["workflow_id"] == str(made.data["workflow_id"])
    assert run["status"] == "waiting_approval"
    assert {one["node"]: one["status"] for one in run["nodes"]} == {
        "start": "complete",
        "if": "complete",
        "ok": "waiting_approval",
        "no": "skipped",
    }


def test_frames_and_events_name_the_node(api, agent):
    draw(agent, SHAPE, EDGES)
    made = api.post(f"{base(agent)}run/", {"input": {"go": False}}, format="json")
    serve()
    run = Workflow.objects.get(pk=made.data["workflow_id"])
    frames = [frame_of(event) for event in run.events.after(0)]
    told = [(one["node"], one["status"]) for one in frames if one["type"] == "step"]
    assert [node for node, status in told if status == "complete"] == ["start", "if", "ok", "no"]
    assert all("node" not in one for one in frames if one["type"] == "status")

    (shown,) = api.get(f"{base(agent)}runs/").json()["results"]
    assert {one["node"]: one["status"] for one in shown["nodes"]}["ok"] == "skipped"
    listed = api.get(f"/api/v1/workflows/{run.pk}/events/").json()["results"]
    assert "if" in {one["node"] for one in listed}


def test_frames_of_other_workflows_have_no_nodes(api, define, begin):
    define(lambda self, event, step: step.do("a", lambda: 1))
    made = begin()
    serve()
    frames = [frame_of(event) for event in made.events.after(0)]
    assert "step" in {one["type"] for one in frames}
    assert [one for one in frames if "node" in one] == []


def test_the_same_id_starts_one_run(api, agent):
    draw(agent, SHAPE, EDGES)
    body = {"input": {"go": True}, "id": "mine"}
    first = api.post(f"{base(agent)}run/", body, format="json")
    again = api.post(f"{base(agent)}run/", body, format="json")
    assert first.data == again.data


def test_the_same_id_returns_the_first_run_even_after_another_publication(api, agent):
    draw(agent, SHAPE, EDGES)
    body = {"input": {"go": True}, "id": "mine"}
    first = api.post(f"{base(agent)}run/", body, format="json")
    draw(agent, SHAPE[:2] + SHAPE[3:], [EDGES[0], EDGES[2]], revision=1)
    again = api.post(f"{base(agent)}run/", body, format="json")
    other = api.post(f"{base(agent)}run/", {**body, "input": None}, format="json")

    assert (again.status_code, again.data["workflow_id"]) == (202, first.data["workflow_id"])
    assert again.data["revision"] == 1
    assert (other.status_code, other.json()["code"]) == (409, "workflow_exists")


def test_the_key_that_starts_a_run_pays_for_it(api, agent, workspace):
    draw(agent, SHAPE, EDGES)
    made = api.post(f"{base(agent)}run/", {"input": {"go": True}}, format="json")

    key = ApiKey.objects.get(workspace=workspace)
    assert Workflow.objects.get(pk=made.data["workflow_id"]).key_id == key.pk


def test_an_unpublished_canvas_cannot_run(api, agent):
    assert api.post(f"{base(agent)}run/", {}, format="json").status_code == 409


def test_errors_name_their_node_and_have_status_422(api, agent, workspace, owner):
    helper = new_agent(workspace, owner, "Helper")
    draw(agent, [SHAPE[0], node("x", "sub_agent", agent="Helper", prompt="hi")], ["start>x"])
    type(helper).objects.filter(pk=helper.pk).update(archived_at=helper.created_at)
    answer = api.post(f"{base(agent)}run/", {}, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "x"


def test_another_workspace_cannot_see_or_start_the_runs(foreign_api, agent):
    draw(agent, SHAPE, EDGES)
    assert foreign_api.post(f"{base(agent)}run/", {}, format="json").status_code == 404
    assert foreign_api.get(f"{base(agent)}runs/").status_code == 404


def test_a_read_only_key_cannot_start_a_run(workspace, agent):
    draw(agent, SHAPE, EDGES)
    reader = key_client(workspace, "read")
    assert reader.post(f"{base(agent)}run/", {}, format="json").status_code == 403
