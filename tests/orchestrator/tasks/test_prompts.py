"""Tests of a task's prompt: an agent answers it in its own session, charged to the key."""

from __future__ import annotations

import pytest

from orchestrator.models import Step, Workflow
from sessions_app.models import Run
from tenants.models import ApiKey, ModelCall
from tests.orchestrator.conftest import now, pass_time, serve
from tests.sessions_app.conftest import serve as serve_lane

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir")]

BASE = "/api/orchestrator"


def ask(api, **body):
    made = api.post(BASE, {"agent": "Concierge", **body}, format="json").json()["workflow_id"]
    serve()
    return Workflow.objects.get(pk=made)


def answered(made):
    """Serve the agent's run and the workflow after it."""
    from orchestrator.engine.waits import settle_run

    step = Step.objects.get(workflow=made, name="run prompt")
    serve_lane(Run.objects.get(pk=step.run_id).session_id)
    settle_run(step.run_id)
    serve()
    return now(made)


def test_an_agent_answers_a_prompt(api):
    made = answered(ask(api, prompt="hello there"))

    assert made.status == "complete", made.error
    assert made.output["output"]
    assert made.output["session_id"]


def test_the_key_that_asked_pays(api, workspace):
    made = answered(ask(api, prompt="hello there"))
    key = ApiKey.objects.get(workspace=workspace)
    call = ModelCall.objects.get(session_id=made.output["session_id"])

    assert made.key_id == key.pk
    assert call.key_id == key.pk


def test_files_are_given_to_the_agent_and_what_it_writes_is_an_artifact(api):
    made = ask(api, prompt="hello there", files=[{"path": "a.txt", "text": "given"}])
    from orchestrator.tasks import sandbox

    here = sandbox.read(made.pk)
    assert here is not None
    assert here.folder.files.joinpath("a.txt").read_text() == "given"
    here.folder.files.joinpath("b.txt").write_text("written")
    found = answered(made)

    assert [one["path"] for one in found.output["artifacts"]] == ["b.txt"]
    assert here.folder.files.joinpath("b.txt").exists(), "the session keeps its files"


def test_an_agent_that_takes_too_long_is_stopped(api):
    made = ask(api, prompt="hello there", timeout=5)
    step = Step.objects.get(workflow=made, name="run prompt")
    pass_time(made, 10)
    from orchestrator.engine.recovery import fire_due

    fire_due()
    serve()
    found = now(made)

    assert (found.status, found.error["code"]) == ("errored", "timeout")
    assert Run.objects.get(pk=step.run_id).status == "cancelled"
