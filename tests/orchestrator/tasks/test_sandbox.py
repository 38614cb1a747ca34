"""Tests that unneeded sandboxes of tasks are removed, one failure holding up no other."""

from __future__ import annotations

from uuid import uuid4

import pytest

from orchestrator.tasks import sandbox
from tests.orchestrator.conftest import now, serve
from tests.tools_app.conftest import needs_bwrap
from tools_app.exceptions import SandboxUnavailable

pytestmark = [pytest.mark.django_db, needs_bwrap, pytest.mark.usefixtures("data_dir")]


@pytest.fixture
def kept(begin):
    """Return a function that runs a command to its end and keeps its sandbox."""

    def use(command):
        made = begin({"command": command, "keep_seconds": 600}, name="execute-task")
        serve()
        assert now(made).status == "complete"
        return sandbox.read(made.pk)

    return use


def test_a_kept_sandbox_stays_until_its_time_is_up(kept):
    here = kept("echo 1 > left.txt")

    assert sandbox.unneeded() == []
    assert sandbox.needed([here.workflow_id, uuid4()]) == {here.workflow_id}
    assert here.folder.files.joinpath("left.txt").exists()
    sandbox.keep(here.workflow_id, here.token, -1)
    sandbox.close_all(sandbox.unneeded())
    assert sandbox.read(here.workflow_id) is None
    assert not here.folder.files.exists()


def test_a_sandbox_that_cannot_be_removed_holds_up_no_other(kept, monkeypatch):
    stuck, other = kept("true"), kept("true")

    def remove(session_id):
        if session_id == stuck.workflow_id:
            raise SandboxUnavailable

    monkeypatch.setattr("orchestrator.tasks.sandbox.remove_containers", remove)
    sandbox.close_all([stuck, other])

    assert sandbox.read(other.workflow_id) is None
    assert sandbox.read(stuck.workflow_id) == stuck
