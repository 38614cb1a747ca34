"""Tests of setting up, changing, listing and pausing triggers, and of the agent's tool."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command

from agents.environments import create_environment
from core.exceptions import StaleEpoch
from orchestrator.models import Workflow, WorkflowTrigger
from orchestrator.tools import RunWorkflow, run_workflow
from orchestrator.triggers import fire_due_triggers
from sessions_app.schedules.timing import resume
from sessions_app.sessions import get_or_create_session
from tenants.models import ApiKey
from tests.conftest import key_client
from tests.orchestrator.canvas.test_runs import draw, new_agent, node
from tests.orchestrator.conftest import make_due
from tools_app.exceptions import ToolFailed
from tools_app.registry import ToolContext, registry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("flow")]
BASE = "/api/v1/triggers/"


def test_a_webhook_is_set_up_over_rest_and_its_secret_is_shown_once(api):
    body = {"name": "Hook", "kind": "webhook", "workflow": "flow"}
    made = api.post(BASE, body, format="json")
    assert made.status_code == 201
    assert made.data["secret"].startswith("whsec_")
    shown = api.get(f"{BASE}{made.data['id']}/")
    assert "secret" not in shown.json()
    assert shown.json()["path"].startswith("/hooks/")
    again = api.post(f"{BASE}{made.data['id']}/rotate/")
    assert again.data["secret"] != made.data["secret"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "schedule"},
        {"kind": "schedule", "cron": "never"},
        {"kind": "schedule", "interval_seconds": 5},
        {"kind": "schedule", "cron": "* * * * *", "interval_seconds": 60},
        {"kind": "webhook", "workflow": "canvas"},
        {"kind": "webhook", "params": {"a": "{{nodes.x.output}}"}},
        {"kind": "webhook", "params": {"a": "x" * 20_000}},
    ],
)
def test_an_invalid_trigger_is_refused(api, wrong):
    answer = api.post(BASE, {"name": "x", "workflow": "flow", **wrong}, format="json")
    assert answer.status_code == 400
    assert not WorkflowTrigger.objects.exists()


def test_an_unknown_workflow_is_refused(api):
    body = {"name": "x", "kind": "webhook", "workflow": "gone"}
    assert api.post(BASE, body, format="json").status_code == 404


def test_a_trigger_is_changed_and_removed(api, timed):
    changed = api.patch(f"{BASE}{timed.pk}/", {"cron": "0 4 * * *"}, format="json")
    assert (changed.status_code, changed.data["cron"]) == (200, "0 4 * * *")
    due = make_due(timed)
    named = api.patch(f"{BASE}{timed.pk}/", {"name": "Later", "kind": "webhook"}, format="json")
    timed.refresh_from_db()
    assert (named.data["name"], timed.kind, timed.next_at) == ("Later", "schedule", due)
    assert api.get(f"{BASE}{timed.pk}/firings/").json()["results"] == []
    assert api.delete(f"{BASE}{timed.pk}/").status_code == 204


def test_a_run_key_cannot_set_up_triggers(workspace, timed):
    runner = key_client(workspace, "run")
    body = {"name": "x", "kind": "webhook", "workflow": "flow"}
    assert runner.post(BASE, body, format="json").status_code == 403
    assert runner.get(BASE).json()["results"][0]["name"] == "Nightly"


def test_triggers_are_set_up_at_the_command_line(workspace):
    out = StringIO()
    call_command("workflows", "triggers", "add", "Hook", "--start", "flow", stdout=out)
    assert "whsec_" in out.getvalue()
    for act in ("pause", "resume", "history", "remove"):
        call_command("workflows", "triggers", act, "Hook", stdout=out)
    assert not WorkflowTrigger.objects.exists()


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_lists_sets_up_and_pauses_triggers(browser_client, timed):
    shown = browser_client.get("/workflows/").content.decode()
    assert "Nightly" in shown
    assert "0 3 * * *" in shown
    browser_client.post(f"/workflows/triggers/{timed.pk}/pause/")
    timed.refresh_from_db()
    assert timed.paused_at

    fields = {"name": "Hook", "starts": "workflow:flow", "kind": "webhook", "timezone": "UTC",
              "verify": "signature", "params": "{}"}  # fmt: skip
    made = browser_client.post("/workflows/triggers/new/", fields)
    assert "whsec_" in made.content.decode()
    assert made.headers["Cache-Control"].startswith("max-age=0, no-cache")
    assert "whsec_" not in browser_client.get("/workflows/").content.decode()


def test_an_invalid_form_shows_the_error(browser_client):
    fields = {"name": "Hook", "kind": "schedule", "timezone": "UTC", "verify": "signature",
              "starts": "workflow:digest"}  # fmt: skip
    for wrong, said in [
        ({}, "Enter a cron expression."),
        ({"cron": "99 99"}, "is not a cron expression"),
        ({"cron": "0 3 * * *", "params": "{nonsense"}, "This is not JSON."),
        ({"cron": "0 3 * * *", "params": "[]"}, ""),
        ({"cron": "0 3 * * *", "params": '["a"]'}, "The input must be a JSON object"),
        ({"cron": "0 3 * * *", "params": '{"topics": 1}'}, "topics"),
        ({"cron": "0 3 * * *", "starts": "agent:nobody"}, "Select a valid choice"),
    ]:
        answer = browser_client.post("/workflows/triggers/new/", {**fields, **wrong})
        assert answer.status_code == (200 if said else 302), wrong
        assert said in answer.content.decode()
    assert WorkflowTrigger.objects.count() == 1


def test_the_page_of_a_trigger_shows_its_history(browser_client, timed):
    make_due(timed)
    fire_due_triggers()
    page = browser_client.get(f"/workflows/triggers/{timed.pk}/").content.decode()
    assert f"/workflows/{Workflow.objects.get().pk}/" in page

    WorkflowTrigger.objects.update(workflow="gone")
    make_due(timed)
    fire_due_triggers()
    page = browser_client.get(f"/workflows/triggers/{timed.pk}/").content.decode()
    assert "There is no workflow named" in page


# ── The agent's tool ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def context(workspace, owner):
    agent = new_agent(workspace, owner, "Starter")
    session, _ = get_or_create_session(agent=agent)
    return ToolContext(
        workspace_id=workspace.pk, session_id=session.pk, agent_id=agent.pk, run_id=uuid4(),
        call_id="call-1", sandbox=None,
    )  # fmt: skip


def test_an_agent_starts_a_workflow_once_per_call(context):
    first = run_workflow(RunWorkflow(workflow="flow", params={"n": 1}), context)
    again = run_workflow(RunWorkflow(workflow="flow", params={"n": 1}), context)
    assert first == again
    assert Workflow.objects.get().params == {"n": 1}
    assert registry["run_workflow"].permission == "always_ask"


def test_a_workflow_started_by_an_agent_is_charged_to_the_key_of_the_turn(context, api, workspace):
    sent = api.post(
        f"/api/v1/sessions/{context.session_id}/messages/", {"text": "Start it"}, format="json"
    )
    run_workflow(RunWorkflow(workflow="flow"), replace(context, run_id=UUID(sent.json()["run_id"])))

    assert Workflow.objects.get().key_id == ApiKey.objects.get(workspace=workspace).pk


def test_an_agent_cannot_start_a_task_in_an_environment_that_allows_more(context):
    fields = {"name": "Online", "network": "full"}
    create_environment(workspace_id=context.workspace_id, fields=fields)

    for name in ("execute-task", "create-session"):
        with pytest.raises(ToolFailed, match="reaches more of the network"):
            run_workflow(RunWorkflow(workflow=name, params={"environment": "Online"}), context)

    assert not Workflow.objects.exists()


def test_an_agent_can_start_its_published_canvas(context):
    with pytest.raises(ToolFailed):
        run_workflow(RunWorkflow(), context)
    from agents.models import Agent

    nodes = [node("start", "trigger"), node("end", "output")]
    draw(Agent.objects.get(pk=context.agent_id), nodes, ["start>end"])
    run_workflow(RunWorkflow(params={"a": 1}), context)
    assert Workflow.objects.get(name="canvas").params["input"] == {"a": 1}


def test_a_stale_worker_starts_no_workflow(context):
    def fence():
        raise StaleEpoch

    with pytest.raises(StaleEpoch):
        run_workflow(RunWorkflow(workflow="flow"), replace(context, fence=fence))
    assert not Workflow.objects.exists()


def test_the_session_of_a_workflow_cannot_start_another(context, workspace):
    from sessions_app.models import Session

    Session.objects.filter(pk=context.session_id).update(metadata={"workflow_id": "x"})
    with pytest.raises(ToolFailed):
        run_workflow(RunWorkflow(workflow="flow"), context)


def test_resuming_an_active_trigger_does_not_delay_it(timed):
    at = make_due(timed)
    timed.refresh_from_db()

    resume(timed)

    timed.refresh_from_db()
    assert timed.next_at == at
