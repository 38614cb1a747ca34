"""Tests of terminals in the sandbox of a task."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.urls import reverse

from orchestrator.exceptions import CommandUnknown
from orchestrator.models import Terminal
from orchestrator.tasks import commands, sandbox
from tenants.models import Purse
from tests.conftest import key_client
from tests.orchestrator.conftest import now, serve
from tests.orchestrator.terminals.conftest import hosted, is_closed, until, watch
from tests.tools_app.conftest import needs_bwrap

pytestmark = [
    pytest.mark.django_db(transaction=True),
    needs_bwrap,
    pytest.mark.usefixtures("data_dir"),
]
__all__ = ["hosted"]
URL = "/api/v1/terminals/"


@pytest.fixture
def kept(begin):
    """Run a task that keeps its sandbox."""
    params = {"command": "echo left behind > note.txt", "keep_seconds": 600}
    made = begin(params, name="execute-task")
    serve()
    assert now(made).status == "complete"
    yield now(made)
    if found := sandbox.read(made.pk):
        sandbox.close(found)


def open_one(workspace, made):
    return key_client(workspace, "run").post(URL, {"workflow": str(made.pk)}, format="json")


@pytest.mark.asyncio
async def test_a_terminal_in_a_kept_sandbox_shows_what_the_command_left(hosted, kept, workspace):
    made = (await sync_to_async(open_one)(workspace, kept)).json()
    assert (made["session"], made["workflow"]) == (None, str(kept.pk))
    async with watch(made["id"], workspace) as watcher:
        await watcher.types("cat note.txt; echo it is $((40 + 2))\n")
        assert b"left behind" in await watcher.sees(b"it is 42")


def test_a_terminal_ends_with_the_sandbox_of_its_task(hosted, kept, workspace):
    made = Terminal.objects.get(pk=open_one(workspace, kept).json()["id"])
    sandbox.close(sandbox.read(kept.pk))

    until(lambda: is_closed(made))
    refused = open_one(workspace, kept)
    assert (refused.status_code, refused.json()["code"]) == (409, "no_sandbox")


def test_a_terminal_of_a_task_is_listed_and_has_a_page(hosted, kept, workspace, browser_client):
    made = open_one(workspace, kept).json()
    for page in (reverse("terminals"), reverse("terminal", args=[made["id"]])):
        assert "echo left behind &gt; note.txt" in browser_client.get(page).content.decode()


def test_the_page_of_a_command_with_an_unknown_end_says_what_to_do(
    begin, browser_client, monkeypatch
):
    def lose(*args):
        raise CommandUnknown(commands.LOST)

    monkeypatch.setattr(commands, "run_once", lose)
    made = begin({"command": "sleep 9"}, name="execute-task")
    serve()
    page = browser_client.get(f"/workflows/{made.pk}/").content.decode()

    assert "it is unknown how it ended" in page
    assert "The sandbox is kept until" in page
    assert 'id="act-terminal"' in page
    assert "Retry from “run command”" in page
    sandbox.close(sandbox.read(made.pk))
    page = browser_client.get(f"/workflows/{made.pk}/").content.decode()
    assert "The sandbox is kept until" not in page
    assert 'id="act-terminal"' not in page


def test_no_terminal_opens_without_credits(hosted, kept, workspace, settings):
    settings.SANDBOX_MINUTE_PRICE = 1
    Purse.objects.filter(kind="workspace").update(spent=1_000)

    assert open_one(workspace, kept).status_code == 402
