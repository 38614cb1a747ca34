"""REST and frames of a canvas's runs: started, pinned, shown node by node."""

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
WAYS = ["start>if", "if:true>ok", "if:false>no"]


@pytest.fixture
def agent(workspace, owner):
    return new_agent(workspace, owner, "Walker")


def base(agent):
    return f"/api/v1/agents/{agent.pk}/canvas/"


def test_a_canvas_is_started_and_every_node_says_where_it_stands(api, agent):
    draw(agent, SHAPE, WAYS)
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
    draw(agent, SHAPE, WAYS)
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


def test_other_workflows_have_no_nodes(api, define, begin):
    define(lambda self, event, step: step.do("a", lambda: 1))
    made = begin()
    serve()
    frames = [frame_of(event) for event in made.events.after(0)]
    assert "step" in {one["type"] for one in frames}
    assert [one for one in frames if "node" in one] == []


def test_the_same_id_starts_one_run(api, agent):
    draw(agent, SHAPE, WAYS)
    body = {"input": {"go": True}, "id": "mine"}
    first = api.post(f"{base(agent)}run/", body, format="json")
    again = api.post(f"{base(agent)}run/", body, format="json")
    assert first.data == again.data


def test_the_same_id_means_the_first_run_even_after_another_publication(api, agent):
    draw(agent, SHAPE, WAYS)
    body = {"input": {"go": True}, "id": "mine"}
    first = api.post(f"{base(agent)}run/", body, format="json")
    draw(agent, SHAPE[:2] + SHAPE[3:], [WAYS[0], WAYS[2]], revision=1)
    again = api.post(f"{base(agent)}run/", body, format="json")
    other = api.post(f"{base(agent)}run/", {**body, "input": None}, format="json")

    assert (again.status_code, again.data["workflow_id"]) == (202, first.data["workflow_id"])
    assert again.data["revision"] == 1
    assert (other.status_code, other.json()["code"]) == (409, "workflow_exists")


def test_the_key_that_starts_a_run_pays_for_it(api, agent, workspace):
    draw(agent, SHAPE, WAYS)
    made = api.post(f"{base(agent)}run/", {"input": {"go": True}}, format="json")

    key = ApiKey.objects.get(workspace=workspace)
    assert Workflow.objects.get(pk=made.data["workflow_id"]).key_id == key.pk


def test_what_is_not_published_cannot_run(api, agent):
    assert api.post(f"{base(agent)}run/", {}, format="json").status_code == 409


def test_errors_are_tied_to_nodes_and_answer_422(api, agent, workspace, owner):
    helper = new_agent(workspace, owner, "Helper")
    draw(agent, [SHAPE[0], node("x", "sub_agent", agent="Helper", prompt="hi")], ["start>x"])
    type(helper).objects.filter(pk=helper.pk).update(archived_at=helper.created_at)
    answer = api.post(f"{base(agent)}run/", {}, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "x"


def test_the_runs_of_another_workspace_are_not_there(foreign_api, agent):
    draw(agent, SHAPE, WAYS)
    assert foreign_api.post(f"{base(agent)}run/", {}, format="json").status_code == 404
    assert foreign_api.get(f"{base(agent)}runs/").status_code == 404


def test_whoever_may_only_read_starts_nothing(workspace, agent):
    draw(agent, SHAPE, WAYS)
    reader = key_client(workspace, "read")
    assert reader.post(f"{base(agent)}run/", {}, format="json").status_code == 403
