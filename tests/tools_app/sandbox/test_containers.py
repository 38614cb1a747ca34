"""Tests of a session's container: kept between commands, safe from stale workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS, alive, limited, reconfigured, run
from tests.tools_app.sandbox.test_leftovers import wait_until
from tools_app.exceptions import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox import cgroup
from tools_app.sandbox.container import engine as engine_module
from tools_app.sandbox.container import lifecycle
from tools_app.sandbox.container.claims import claim_container, list_claims, session_dir
from tools_app.sandbox.container.engine import connect
from tools_app.sandbox.container.lifecycle import (
    container_name,
    labels,
    list_containers,
    remove_unused_containers,
    sweep,
)
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.provisioning import kill_leftovers

WORKER = """
import sys
from pathlib import Path
from uuid import UUID
import django
django.setup()
from django.conf import settings
settings.DATA_DIR, settings.CONTAINER_SOCKET = Path(sys.argv[3]), sys.argv[4]
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Limits
from tools_app.sandbox.container.sandbox import ContainerSandbox
folder = SessionFolder(workspace_id=UUID(sys.argv[1]), session_id=UUID(sys.argv[2]))
sandbox = ContainerSandbox(folder=folder, limits=Limits(), image="switchyard/base")
sandbox.execute(f"touch running; exec -a {sys.argv[5]} sleep 600", seconds=600)
"""


@contextmanager
def worker(container: ContainerSandbox, data_dir: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start a process that runs a command in its container; yield it and the command's marker."""
    folder = container.folder
    marker = f"left-{folder.session_id}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", WORKER),
            *(str(folder.workspace_id), str(folder.session_id), str(data_dir)),
            *(connect().socket, marker),
        ],
    )
    try:
        wait_until((folder.files / "running").exists)
        wait_until(lambda: commands(marker))
        yield process, marker
    finally:
        process.kill()
        process.wait()


def commands(marker: str) -> list[str]:
    return [line for line in alive(marker) if line.startswith(marker)]


def container_id(container: ContainerSandbox) -> str | None:
    found = connect().inspect(container_name(container.folder.session_id))
    return found["Id"] if found else None


def names() -> set[str]:
    return {box["Names"][0].lstrip("/") for box in list_containers()}


def test_the_container_stays_between_commands(container):
    run(container, "echo kept > /tmp/note")
    first = container_id(container)

    assert run(container, "cat /tmp/note") == "kept\n"
    assert container_id(container) == first


def test_changed_limits_create_a_new_container(container, files):
    run(container, "echo kept > note")
    first = container_id(container)

    assert run(limited(container, pids=50), "cat note") == "kept\n"
    assert container_id(container) != first


def test_a_handle_to_a_replaced_container_is_an_error(container):
    run(container, "true")
    connect().remove(container_name(container.folder.session_id))
    run(reconfigured(container), "true")

    with pytest.raises(SandboxReplaced):
        container.execute("touch ran", seconds=TIMEOUT_SECONDS)
    assert not (container.folder.files / "ran").exists()


def test_two_threads_that_need_the_container_create_one(container, folder):
    other = reconfigured(container)
    results: list[str] = []
    threads = [
        Thread(target=lambda box=box: results.append(run(box, "echo done")))
        for box in (container, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == ["done\n"] * 2
    assert names() == {container_name(folder.session_id)}


def test_a_paused_workers_command_is_killed_and_cannot_come_back(container, data_dir, files):
    with worker(container, data_dir) as (process, marker):
        process.send_signal(signal.SIGSTOP)

        assert kill_leftovers(container.folder.session_id) == 1

        assert commands(marker) == []
        assert container_id(container) is None
        assert list_claims(container.folder.session_id) == []
        assert run(container, "echo new") == "new\n"
        process.send_signal(signal.SIGCONT)
        process.wait(TIMEOUT_SECONDS)
        # The old worker's command has ended, and the new container still works.
        assert run(container, "echo again") == "again\n"


def test_a_stale_worker_cannot_start_a_command(container, monkeypatch):
    """Covers a worker that was paused before it looked for the container and finds a newer one."""
    ensure_container = lifecycle.ensure_container

    def slow_ensure(*arguments, **options):
        kill_leftovers(container.folder.session_id)
        return ensure_container(*arguments, **options)

    monkeypatch.setattr("tools_app.sandbox.container.lifecycle.ensure_container", slow_ensure)

    with pytest.raises(SandboxReplaced):
        container.execute("touch ran", seconds=TIMEOUT_SECONDS)
    assert not (container.folder.files / "ran").exists()


def test_a_worker_that_loses_its_container_after_the_check_starts_nothing(container, monkeypatch):
    """Covers a worker whose claim was still valid when it checked."""
    check = "tools_app.sandbox.container.claims.Claim.check"
    monkeypatch.setattr(check, lambda claim: kill_leftovers(container.folder.session_id))

    with pytest.raises(SandboxReplaced):
        container.execute("touch ran", seconds=TIMEOUT_SECONDS)
    assert not (container.folder.files / "ran").exists()


def test_the_supervisor_kills_the_command_of_a_killed_worker(container, data_dir):
    session_id = container.folder.session_id
    with worker(container, data_dir) as (process, marker):
        assert sweep([session_id], [session_id]) == 0
        assert commands(marker)
        process.kill()
        process.wait()

        assert sweep([session_id], [session_id]) == 1

        assert commands(marker) == []
        assert list_claims(session_id) == []


def test_the_supervisor_removes_a_container_that_an_unavailable_engine_kept(container, monkeypatch):
    session_id = container.folder.session_id
    run(container, "true")
    with claim_container(session_id) as claim:
        with monkeypatch.context() as patch:
            patch.setattr(lifecycle, "connect", lambda: (_ for _ in ()).throw(SandboxUnavailable()))
            assert kill_leftovers(session_id) == 0
        # The claim is no longer valid, although the container could not be removed yet.
        with pytest.raises(SandboxReplaced):
            claim.check()

        assert sweep([session_id], [session_id]) == 1
    assert container_id(container) is None


def test_a_command_that_cannot_be_killed_is_removed_with_its_container(container, monkeypatch):
    monkeypatch.setattr(cgroup.Cgroup, "_kill", lambda group, pid: None)
    monkeypatch.setattr(cgroup, "KILL_SECONDS", 0.2)

    result = container.execute("sleep 600", seconds=1)

    assert result.ended_by == "time"
    assert container_id(container) is None


def test_removing_a_container_ends_its_running_command(container, files):
    def end() -> None:
        wait_until((files / "begun").exists)
        connect().remove(container_name(container.folder.session_id))

    thread = Thread(target=end)
    thread.start()
    result = container.execute("touch begun; sleep 600", seconds=TIMEOUT_SECONDS)
    thread.join()

    assert result.ended_by in {"itself", "stop"}
    assert result.exit_code in {None, 137}


def test_an_engine_that_was_never_used_is_not_contacted(folder, settings):
    settings.CONTAINER_SOCKET = "/nowhere"

    assert kill_leftovers(folder.session_id) == 0
    remove_unused_containers()


def test_podman_is_started_once_when_no_engine_listens(engine, data_dir, settings, monkeypatch):
    settings.CONTAINER_SOCKET = ""
    monkeypatch.setattr(engine_module, "_usual", list)
    monkeypatch.setattr(engine_module, "IDLE_SECONDS", 1)
    found: list[str] = []
    threads = [Thread(target=lambda: found.append(engine_module.find_socket())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(found)) == 1
    assert connect().is_podman
    wait_until(lambda: not alive(found[0]))


def test_a_long_data_dir_moves_the_socket_elsewhere(settings, tmp_path):
    settings.DATA_DIR = tmp_path / ("long" * 30)
    path = engine_module._own_socket()

    assert len(bytes(path)) <= engine_module.LONGEST_SOCKET_PATH
    assert path.parent.stat().st_mode & 0o077 == 0
    for name in ("engine.lock",):
        (path.parent / name).unlink(missing_ok=True)
    path.parent.rmdir()


def test_labels_name_installation_and_session(container, folder):
    run(container, "true")
    (box,) = connect().list_labelled(labels(folder.session_id, lifecycle.COMMANDS))

    assert box["Id"] == container_id(container)
    assert os.path.basename(box["Names"][0]) == container_name(folder.session_id)
    assert time.time() - session_dir(folder.session_id).stat().st_mtime < TIMEOUT_SECONDS
