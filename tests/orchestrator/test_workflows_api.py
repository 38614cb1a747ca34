"""Tests of workflows over REST."""

from __future__ import annotations

import pytest

from orchestrator.models import Workflow
from tests.conftest import key_client
from tests.orchestrator.conftest import serve

pytestmark = pytest.mark.django_db

BASE = "/api/v1/workflows/"


@pytest.fixture
def paid(define):
    def run(self, event, step):
        self.report_progress("Waiting for the money", percent=25)
        return step.wait_for_event("pay", type="paid", timeout=60)

    define(run, name="paid")


def start(api, name="paid", **words):
    return api.post(BASE, {"name": name, **words}, format="json")


def test_params_that_are_too_large_start_nothing(api, paid, monkeypatch):
    monkeypatch.setattr("orchestrator.engine.lifecycle.MAX_PARAMS", 20)

    assert start(api, params={"n": "x" * 20}).status_code == 400
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    ("path", "more"), [(BASE, {}), ("/api/v1/triggers/", {"kind": "webhook", "workflow": "ask"})]
)
def test_an_invalid_parameter_is_named_by_its_pointer(api, path, more):
    body = {"name": "ask", **more, "params": {"message": "hi", "a/b": 1}}
    refused = api.post(path, body, format="json")

    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert (error["field"], error["pointer"]) == ("params.a/b", "#/params/a~1b")


def test_a_started_workflow_is_shown_with_its_steps_and_progress(api, paid):
    made = start(api, params={"n": 1})
    assert made.status_code == 201
    serve()
    seen = api.get(f"{BASE}{made.data['id']}/").json()

    assert (seen["name"], seen["status"], seen["params"]) == ("paid", "waiting", {"n": 1})
    assert seen["steps"][0]["name"] == "pay"
    assert seen["steps"][0]["detail"] == {"type": "paid"}
    assert seen["progress"]["percent"] == 25
    assert seen["progress"]["eta_seconds"] is not None


def test_attempts_are_listed_with_their_errors(api, define):
    def fail():
        raise ValueError("no")

    define(lambda self, event, step: step.do("f", fail, retries=1, delay=0), name="f")
    made = start(api, "f").data
    serve()
    (step,) = api.get(f"{BASE}{made['id']}/").json()["steps"]

    assert [(one["number"], one["status"]) for one in step["attempts"]] == [
        (1, "errored"),
        (2, "errored"),
    ]
    assert step["attempts"][0]["error"]["message"] == "no"


def test_the_same_id_gives_the_same_workflow(api, paid):
    first = start(api, id="order-1", params={"n": 1})
    again = start(api, id="order-1", params={"n": 1})
    other = start(api, id="order-1", params={"n": 2})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.data["id"] == again.data["id"] == "order-1"
    assert first.data["workflow_id"] == again.data["workflow_id"]
    assert (other.status_code, other.json()["code"]) == (409, "workflow_exists")
    assert Workflow.objects.count() == 1


def test_the_same_id_in_another_workspace_is_another_workflow(api, foreign_api, paid):
    mine, theirs = start(api, id="order-1"), start(foreign_api, id="order-1")

    assert mine.data["workflow_id"] != theirs.data["workflow_id"]


def test_a_workflow_is_found_by_the_id_that_its_client_gave(api, foreign_api, paid):
    made = start(api, id="order-1").data

    for found in (made["id"], made["workflow_id"]):
        assert api.get(f"{BASE}{found}/").json()["workflow_id"] == made["workflow_id"]
    assert foreign_api.get(f"{BASE}order-1/").status_code == 404


def test_a_workflow_can_be_started_by_its_class_name(api):
    body = {"name": "ExecuteTask", "params": {"command": "true"}}
    answer = api.post(BASE, body, format="json")

    assert (answer.status_code, answer.json()["name"]) == (201, "execute-task")


def test_the_error_for_an_unknown_name_lists_the_known_ones(api):
    answer = api.post(BASE, {"name": "nothing"}, format="json")

    assert answer.status_code == 404
    assert "execute-task" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "nothing"}, 404),
        ({"name": "paid", "id": "a/b"}, 400),
        ({"name": "paid", "id": "definitions"}, 400),
        ({"name": "paid", "params": []}, 400),
        ({"name": "paid", "params": {"x": "\0"}}, 400),
        ({"name": "digest", "params": {"topic": ""}}, 400),
        ({"name": "digest", "params": {"no": 1}}, 400),
        ({}, 400),
    ],
)
def test_an_invalid_start_is_refused(api, paid, body, status):
    answer = api.post(BASE, body, format="json")

    assert answer.status_code == status, answer.json()
    assert not Workflow.objects.exists()


def test_the_list_is_filtered_by_name_and_status(api, paid, define):
    define(lambda self, event, step: 1, name="quick")
    start(api)
    start(api, "quick")
    serve()

    def names(**query):
        return [one["name"] for one in api.get(BASE, query).json()["results"]]

    assert names() == ["quick", "paid"]
    assert names(name="paid") == ["paid"]
    assert names(status="complete") == ["quick"]


def test_an_event_is_sent_and_the_log_is_read(api, paid):
    made = start(api).data
    serve()
    sent = api.post(
        f"{BASE}{made['id']}/events/", {"type": "paid", "payload": {"euro": 5}}, format="json"
    )
    assert sent.status_code == 202
    serve()
    log = api.get(f"{BASE}{made['id']}/events/", {"limit": 1000}).json()["results"]

    assert [one["seq"] for one in log] == [*range(1, len(log) + 1)]
    assert log[-1]["payload"]["status"] == "complete"
    assert api.get(f"{BASE}{made['id']}/").json()["result"] == {"euro": 5}
    after = api.get(f"{BASE}{made['id']}/events/", {"after": len(log) - 1}).json()["results"]
    assert after == log[-1:]


def test_an_approval_is_answered_once(api, define):
    define(lambda self, event, step: step.wait_for_approval("ok"), name="ask-me")
    made = start(api, "ask-me").data
    serve()
    path = f"{BASE}{made['id']}"
    assert api.get(f"{path}/").json()["status"] == "waiting_approval"
    first = api.post(f"{path}/approve/", {"note": "go"}, format="json")
    second = api.post(f"{path}/reject/", {}, format="json")
    serve()

    assert first.status_code == 202
    assert (second.status_code, second.json()["code"]) == (409, "no_gate")
    assert api.get(f"{path}/").json()["result"]["note"] == "go"


def test_a_rejected_workflow_shows_its_reason(api, define):
    define(lambda self, event, step: step.wait_for_approval("ok"), name="ask-me")
    made = start(api, "ask-me").data
    serve()
    api.post(f"{BASE}{made['id']}/reject/", {"note": "not today"}, format="json")
    serve()
    seen = api.get(f"{BASE}{made['id']}/").json()

    assert (seen["status"], seen["error"]["code"]) == ("errored", "rejected")
    assert "not today" in seen["error"]["message"]


def test_a_workflow_is_paused_resumed_terminated_and_restarted(api, paid):
    made = start(api).data
    path = f"{BASE}{made['id']}"
    serve()
    for act, status in [
        ("pause", "paused"),
        ("resume", "waiting"),
        ("terminate", "terminated"),
        ("restart", "queued"),
    ]:
        answer = api.post(f"{path}/{act}/", {}, format="json")
        assert (answer.status_code, answer.json()["status"]) == (202, status), act


def test_a_restart_from_a_step_that_was_never_reached_is_refused(api, paid):
    made = start(api).data
    answer = api.post(f"{BASE}{made['id']}/restart/", {"from_step": "no"}, format="json")

    assert answer.status_code == 404


@pytest.mark.django_db(transaction=True)
def test_an_ended_workflow_cannot_be_paused(api, define):
    define(lambda self, event, step: 1, name="quick")
    made = start(api, "quick").data
    serve()
    answer = api.post(f"{BASE}{made['id']}/pause/", {}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (409, "workflow_ended")


def test_a_read_only_key_cannot_start_a_workflow(workspace, paid):
    reader = key_client(workspace, "read")

    assert start(reader).status_code == 403
    assert reader.get(BASE).status_code == 200


def test_definitions_are_listed_with_their_parameters(api):
    found = {one["name"]: one for one in api.get(f"{BASE}definitions/").json()["results"]}

    assert {"digest", "panel", "ask"} <= set(found)
    assert found["digest"]["params"]["properties"]["topic"]
    assert found["digest"]["description"].startswith("An agent drafts")


def test_a_workflow_is_shown_in_a_constant_number_of_queries(
    api, define, django_assert_max_num_queries
):
    define(lambda self, event, step: [step.do("s", lambda: 1) for _ in range(20)], name="many")
    made = start(api, "many").data
    serve()
    with django_assert_max_num_queries(12):
        assert len(api.get(f"{BASE}{made['id']}/").json()["steps"]) == 20
