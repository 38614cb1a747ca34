"""Tests of tasks on the pages of workflows."""

from __future__ import annotations

import pytest

from orchestrator.models import Workflow
from tests.orchestrator.conftest import serve
from tests.tools_app.conftest import needs_bwrap

pytestmark = [pytest.mark.django_db, needs_bwrap, pytest.mark.usefixtures("data_dir")]


def test_a_task_is_started_by_a_form_and_its_artifact_is_offered(browser_client):
    form = {
        "name": "execute-task",
        "once": "x",
        "timeout": "60",
        "keep_seconds": "0",
        "files": "[]",
    }
    command = "echo '<b>said</b>'; mkdir artifacts; echo 1 > 'artifacts/a b.txt'"
    sent = browser_client.post("/workflows/new/", {**form, "command": command})
    assert sent.status_code == 302, sent.content
    serve()
    made = Workflow.objects.get()
    page = browser_client.get(f"/workflows/{made.pk}/").content.decode()

    assert made.status == "complete", made.error
    where = f"/api/v1/workflows/{made.pk}/artifacts/artifacts/a%20b.txt"
    assert f'href="{where}"' in page
    assert "&lt;b&gt;said&lt;/b&gt;" in page
    assert b"".join(browser_client.get(where).streaming_content) == b"1\n"


def test_a_form_without_command_or_prompt_shows_the_reason(browser_client):
    form = {
        "name": "execute-task",
        "once": "x",
        "timeout": "60",
        "keep_seconds": "0",
        "files": "[]",
    }
    page = browser_client.post("/workflows/new/", form)

    assert "either a command or a prompt" in page.content.decode()
