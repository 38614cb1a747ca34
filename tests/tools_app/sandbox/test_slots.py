"""Tests of how many commands and containers a workspace has at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from unittest.mock import Mock

import pytest

from core.ids import uuid7
from tools_app.exceptions import ToolStopped, TooManySandboxes
from tools_app.files import SessionFolder
from tools_app.sandbox import slots
from tools_app.sandbox.base import ExecResult
from tools_app.sandbox.container.claims import claim_container, forget_session
from tools_app.sandbox.provisioning import LazySandbox
from tools_app.sandbox.slots import check_containers, command_slot, slots_dir


@pytest.fixture(autouse=True)
def two_sandboxes(data_dir, settings, monkeypatch) -> None:
    settings.SANDBOXES_PER_WORKSPACE = 2
    monkeypatch.setattr(slots, "WAIT_SECONDS", 0.2)


def test_a_workspace_runs_only_so_many_commands_at_once():
    workspace_id = uuid7()
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(command_slot(workspace_id))
        with pytest.raises(TooManySandboxes, match="already run 2 commands"):
            held.enter_context(command_slot(workspace_id))
        held.enter_context(command_slot(uuid7()))  # another workspace is not affected

    with command_slot(workspace_id):
        pass


def test_a_command_waits_for_a_slot(monkeypatch):
    monkeypatch.setattr(slots, "WAIT_SECONDS", 30)
    workspace_id, held = uuid7(), ExitStack()
    for _ in range(2):
        held.enter_context(command_slot(workspace_id))
    threading.Timer(0.2, held.close).start()

    with command_slot(workspace_id):
        pass


def test_a_stopped_command_does_not_wait():
    workspace_id, stopped = uuid7(), threading.Event()
    stopped.set()
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(command_slot(workspace_id))
        with pytest.raises(ToolStopped):
            held.enter_context(command_slot(workspace_id, stopped))


def test_a_killed_process_gives_its_slots_back():
    workspace_id = uuid7()
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(command_slot(workspace_id))
    lock = "import fcntl,os,sys\nfor p in sys.argv[1:]: fcntl.flock(os.open(p, os.O_RDWR), 2)"
    paths = [str(slots_dir(workspace_id) / name) for name in ("0", "1")]
    script = f"{lock}\nprint('held', flush=True)\nsys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(TooManySandboxes), command_slot(workspace_id):
        pass
    holder.kill()
    holder.communicate()

    with command_slot(workspace_id):
        pass


def test_the_commands_of_agents_hold_a_slot(monkeypatch):
    monkeypatch.setattr(slots, "WAIT_SECONDS", 30)
    running, most, lock = 0, 0, threading.Lock()

    def execute(command: str, **options: object) -> ExecResult:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return ExecResult(exit_code=0, output="")

    sandbox = Mock(execute=execute)
    lazy = LazySandbox(lambda: sandbox, workspace_id=uuid7())
    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(lambda _: lazy.execute("true", seconds=60), range(6)))

    assert most == 2


def test_a_workspace_has_only_so_many_containers():
    workspace_id = uuid7()
    folders = [SessionFolder(workspace_id=workspace_id, session_id=uuid7()) for _ in range(3)]
    for folder in folders:
        folder.make()
    for folder in folders[:2]:
        with claim_container(folder.session_id):
            pass

    check_containers(folders[0])  # it has one already
    with pytest.raises(TooManySandboxes, match="already has 2 containers"):
        check_containers(folders[2])
    check_containers(SessionFolder(workspace_id=uuid7(), session_id=uuid7()))
    forget_session(folders[1].session_id)
    check_containers(folders[2])
