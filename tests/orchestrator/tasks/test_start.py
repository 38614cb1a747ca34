"""Tests of the REST endpoints for tasks: tasks, sessions, artifacts, refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agents.environments import create_environment
from orchestrator.api import tasks
from orchestrator.models import Workflow
from sessions_app.models import Session
from tenants.billing.credits import add_credits
from tests.conftest import key_client
from tests.orchestrator.conftest import now, serve
from tests.tools_app.conftest import needs_bwrap

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]

BASE = "/api/orchestrator"


def post(api, path="", **body):
    return api.post(BASE + path, body, format="json")


def test_the_health_check_needs_no_identity(client):
    for path in (BASE, BASE + "/"):
        answer = client.get(path)
        assert answer.status_code in (200, 503)
        assert {"database", "workers", "supervisor", "stream"} <= set(answer.json()["checks"])


def test_a_task_without_an_identity_is_refused(client):
    answer = client.post(BASE, {"command": "true"}, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "WWW-Authenticate" in answer


def test_a_read_only_key_cannot_start_a_task(workspace):
    answer = post(key_client(workspace, "read"), command="true")

    assert answer.status_code == 403
    assert not Workflow.objects.exists()


def test_a_workflow_of_a_run_key_cannot_create_a_session_with_secrets(workspace):
    vault = {"kind": "vault", "source_ref": "KEY", "mount_path": "/vaults/keys"}
    fields = {"name": "Secrets", "mounts": [vault]}
    create_environment(workspace_id=workspace.pk, fields=fields)
    started = key_client(workspace, "run").post(
        "/api/v1/workflows/",
        {"name": "create-session", "params": {"agent": "Coder", "environment": "Secrets"}},
        format="json",
    )
    assert started.status_code in (201, 202)

    serve()

    assert not Session.objects.exists()
    assert "right to build" in str(Workflow.objects.get().error)


@needs_bwrap
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_task_is_accepted_run_and_its_artifact_downloaded(api, slash):
    answer = post(api, slash, command="echo hello > out.txt")
    assert answer.status_code == 202
    serve()
    where = f"/api/v1/workflows/{answer.json()['workflow_id']}/"
    (listed,) = api.get(f"{where}artifacts/").json()["results"]
    loaded = api.get(f"{where}artifacts/out.txt")

    assert api.get(where).json()["status"] == "complete"
    assert (listed["path"], listed["size"], len(listed["sha256"])) == ("out.txt", 6, 64)
    assert b"".join(loaded.streaming_content) == b"hello\n"
    assert loaded["Content-Disposition"] == 'attachment; filename="out.txt"'
    assert loaded["X-Content-Type-Options"] == "nosniff"
    assert api.get(f"{where}artifacts/other.txt").status_code == 404


@needs_bwrap
def test_an_artifact_of_another_workspace_looks_like_a_missing_one(api, foreign_api):
    made = post(api, command="echo hello > out.txt").json()["workflow_id"]
    serve()
    where = f"/api/v1/workflows/{made}/artifacts/"

    assert foreign_api.get(where).status_code == 404
    assert foreign_api.get(f"{where}out.txt").status_code == 404


def test_a_rejected_task_runs_nothing(api):
    made = post(api, command="echo 1", approval=True).json()["workflow_id"]
    serve()
    where = f"/api/v1/workflows/{made}/"
    assert api.get(where).json()["status"] == "waiting_approval"
    api.post(f"{where}reject/", {"note": "not today"}, format="json")
    serve()
    seen = api.get(where).json()

    assert (seen["status"], seen["error"]["code"]) == ("errored", "rejected")
    assert "not today" in seen["error"]["message"]
    assert "run command" not in [step["name"] for step in seen["steps"]]


@needs_bwrap
def test_an_approved_task_runs(api):
    made = post(api, command="echo 1", approval=True).json()["workflow_id"]
    serve()
    api.post(f"/api/v1/workflows/{made}/approve/", {}, format="json")
    serve()

    assert api.get(f"/api/v1/workflows/{made}/").json()["result"]["output"] == "1\n"


def test_the_same_idempotency_key_starts_one_task(api):
    first = api.post(BASE, {"command": "true"}, format="json", headers={"Idempotency-Key": "a"})
    again = api.post(BASE, {"command": "true"}, format="json", headers={"Idempotency-Key": "a"})
    other = api.post(BASE, {"command": "false"}, format="json", headers={"Idempotency-Key": "a"})

    assert first.json() == again.json()
    assert other.status_code == 422
    assert Workflow.objects.count() == 1


def test_a_task_without_credits_is_refused(api, workspace):
    from tenants.billing.credits import get_balance

    add_credits(workspace.pk, -get_balance(workspace.pk).balance, kind="adjustment")
    answer = post(api, command="true")

    assert (answer.status_code, answer.json()["code"]) == (402, "out_of_credits")
    assert not Workflow.objects.exists()


def test_a_task_whose_credits_are_gone_before_it_starts_fails(api, workspace):
    from tenants.billing.credits import get_balance

    made = post(api, command="true").json()["workflow_id"]
    add_credits(workspace.pk, -get_balance(workspace.pk).balance, kind="adjustment")
    serve()
    found = now(Workflow.objects.get(pk=made))

    assert (found.status, found.error["code"]) == ("errored", "task_unpaid")
    assert Decimal(0) == get_balance(workspace.pk).balance


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, ""),
        ({"command": "a", "prompt": "b"}, ""),
        ({"command": " "}, ""),
        ({"command": "a", "agent": "Nobody"}, "agent"),
        ({"prompt": "a", "agent": "Nobody"}, "agent"),
        ({"command": "a", "environment": "nowhere"}, "environment"),
        ({"command": "a", "timeout": 0}, "timeout"),
        ({"command": "a", "timeout": 1e9}, "timeout"),
        ({"command": "a", "color": "red"}, "color"),
        ({"command": "a", "files": [{"path": "../a", "text": ""}]}, "files.0.path"),
        ({"command": "a", "files": [{"path": "a", "text": "", "base64": ""}]}, "files.0"),
        ({"command": "a", "files": [{"path": "a", "base64": "?"}]}, "files.0"),
        ({"command": "a", "files": [{"path": "a", "text": "x" * 800_000}]}, ""),
        ({"command": "a", "files": [{"path": "a", "text": ""}] * 2}, ""),
        ({"command": "a\0b"}, "command"),
        ({"command": ["a"]}, "command"),
    ],
)
def test_an_invalid_task_is_refused_and_names_the_field(api, body, field):
    answer = api.post(BASE, body, format="json")
    problem = answer.json()

    assert answer.status_code == 400, problem
    assert problem["errors"][0]["field"] == field, problem
    assert not Workflow.objects.exists()


def test_a_body_that_is_not_an_object_is_refused(api):
    assert api.post(BASE, [1], format="json").status_code == 400


def test_an_environment_of_another_workspace_looks_like_a_missing_one(api, foreign_workspace):
    from agents.environments import default_environment

    theirs = default_environment(foreign_workspace.pk)
    foreign = post(api, command="a", environment=str(theirs.pk))
    missing = post(api, command="a", environment=str(foreign_workspace.pk))

    assert (foreign.status_code, missing.status_code) == (400, 400)
    assert foreign.json()["code"] == missing.json()["code"]


def test_a_session_is_made_by_a_workflow(api, workspace):
    answer = api.post(f"{BASE}/session?wait=0", {"agent": "Coder", "title": "T"}, format="json")
    assert answer.status_code == 202
    assert answer.json()["session_id"] is None
    serve()
    made = now(Workflow.objects.get(pk=answer.json()["workflow_id"]))
    session = Session.objects.get(pk=made.output["session_id"])

    assert (made.name, made.status) == ("create-session", "complete")
    assert (str(session.agent), session.title) == ("Coder", "T")
    assert session.workspace_id == workspace.pk


def test_the_response_contains_the_whole_new_session(api, workspace, monkeypatch):
    def serve_and_find(workflow_id, seconds):
        serve()
        return Workflow.objects.get(pk=workflow_id)

    monkeypatch.setattr(tasks, "wait_for_workflow", serve_and_find)
    answer = api.post(f"{BASE}/session", {"agent": "Coder", "title": "T"}, format="json")

    body = answer.json()
    assert (answer.status_code, body["id"]) == (201, body["session_id"])
    assert body["session"] == api.get(f"/api/v1/sessions/{body['id']}/").json()


def test_the_same_agent_and_key_give_the_same_session(api):
    body = {"agent": "Coder", "session_key": "k"}
    for _ in range(2):
        api.post(f"{BASE}/session?wait=0", body, format="json")
    serve()

    assert len({one.output["session_id"] for one in Workflow.objects.all()}) == 1


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "soon"])
def test_an_invalid_wait_is_refused(api, wait):
    assert api.post(f"{BASE}/session?wait={wait}", {}, format="json").status_code == 400


# ── The timeout ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def quick(workspace) -> None:
    fields = {"name": "quick", "kind": "local", "limits": {"wall_seconds": 30}}
    create_environment(workspace_id=workspace.pk, fields=fields)


@pytest.mark.usefixtures("quick")
def test_a_timeout_above_the_limit_of_the_environment_is_refused(api):
    answer = post(api, command="true", environment="quick", timeout=31)

    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["timeout"]
    assert "30 seconds" in answer.json()["detail"]
    assert not Workflow.objects.exists()
    assert post(api, command="true", environment="quick", timeout=30).status_code == 202


@pytest.mark.usefixtures("quick")
def test_the_timeout_is_refused_when_a_task_is_started_as_a_workflow_too(api):
    params = {"command": "true", "environment": "quick", "timeout": 600}
    body = {"name": "execute-task", "params": params}
    answer = api.post("/api/v1/workflows/", body, format="json")

    assert answer.status_code == 400
    assert "30 seconds" in str(answer.json())


@pytest.mark.usefixtures("quick")
def test_without_a_timeout_a_task_has_the_limit_of_its_environment(api):
    post(api, command="true", environment="quick")

    assert Workflow.objects.get().params["timeout"] == 30


@pytest.mark.usefixtures("quick")
def test_the_timeout_of_a_prompt_is_not_that_of_a_command(api):
    answer = post(api, prompt="say hello", agent="Coder", environment="quick", timeout=300)

    assert answer.status_code == 202
    assert Workflow.objects.get().params["timeout"] == 300
