"""Tests that only unneeded containers are removed, and that files stay."""

from __future__ import annotations

from core.ids import uuid7
from orchestrator.supervisor import sweep_sandboxes
from sessions_app.lanes import recovery
from tests.tools_app.sandbox.conftest import IMAGE, reconfigured, run
from tests.tools_app.sandbox.test_containers import container_id
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Limits
from tools_app.sandbox.container import lifecycle
from tools_app.sandbox.container.claims import claim_container, session_dir
from tools_app.sandbox.container.lifecycle import list_containers, remove_unused_containers, sweep
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.provisioning import kill_leftovers


def test_idle_containers_are_removed_and_their_files_stay(container, settings, files):
    session_id = container.folder.session_id
    run(container, "echo kept > note")

    assert sweep([session_id], [session_id]) == 0
    assert container_id(container)

    settings.SANDBOX_IDLE_SECONDS = 0
    with claim_container(session_id):
        assert sweep([session_id], [session_id]) == 0
    assert sweep([session_id], [session_id]) == 1

    assert container_id(container) is None
    assert not session_dir(session_id).exists()
    assert run(reconfigured(container), "cat note") == "kept\n"


def test_containers_of_ended_sessions_are_removed(container):
    session_id = container.folder.session_id
    run(container, "true")
    terminal = container.open_terminal()

    assert sweep([session_id], []) == 2
    assert list_containers() == []
    assert not session_dir(session_id).exists()
    terminal.close()


def test_a_container_without_a_record_is_removed(container):
    run(container, "true")
    other = uuid7()
    lifecycle.remove_containers(other)
    session_dir(container.folder.session_id).rmdir()

    assert sweep([other], [other]) == 1
    assert list_containers() == []


def test_unused_containers_are_removed_when_switchyard_stops(container):
    run(container, "true")
    with claim_container(container.folder.session_id):
        remove_unused_containers()
        assert container_id(container)

    remove_unused_containers()
    assert container_id(container) is None


def test_two_installations_do_not_remove_each_others_containers(
    container, data_dir, settings, folder
):
    run(container, "true")
    ours = container_id(container)
    settings.DATA_DIR = data_dir / "other"
    settings.DATA_DIR.mkdir(mode=0o711)
    same = SessionFolder(workspace_id=folder.workspace_id, session_id=folder.session_id)
    theirs = ContainerSandbox(folder=same, limits=Limits(), image=IMAGE)

    run(theirs, "true")
    assert kill_leftovers(folder.session_id) == 0
    settings.SANDBOX_IDLE_SECONDS = 0
    assert sweep([folder.session_id], [folder.session_id]) == 1

    assert list_containers() == []
    settings.DATA_DIR = data_dir
    assert container_id(container) == ours


def test_the_supervisor_keeps_containers_of_living_sessions_only(
    db, container, folder, monkeypatch
):
    run(container, "true")
    monkeypatch.setattr(recovery, "living_sessions", lambda ids: set(ids))
    sweep_sandboxes()
    assert container_id(container)

    monkeypatch.undo()
    sweep_sandboxes()
    assert container_id(container) is None
