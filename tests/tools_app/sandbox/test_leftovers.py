"""Tests that commands left running by an earlier worker of a session are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools_app.files import SessionFolder
from tools_app.sandbox.processes import started_at
from tools_app.sandbox.provisioning import kill_leftovers

pytestmark = pytest.mark.usefixtures("local")

WORKER = """
import sys
from pathlib import Path
from uuid import UUID
import django
django.setup()
from django.conf import settings
settings.DATA_DIR = Path(sys.argv[3])
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Limits
from tools_app.sandbox.local import LocalSandbox
folder = SessionFolder(workspace_id=UUID(sys.argv[1]), session_id=UUID(sys.argv[2]))
LocalSandbox(folder=folder, limits=Limits(wall_seconds=600)).execute("touch running; sleep 600", seconds=600)
"""


def wait_until(condition, seconds: float = 60):
    """Wait for a condition that another process brings about."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("It did not happen.")


@contextmanager
def worker(folder: SessionFolder, data_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a process that runs a command; yield it and the pid of the sandbox's first process."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", WORKER),
            *(str(folder.workspace_id), str(folder.session_id), str(data_dir)),
        ],
    )
    try:
        wait_until((folder.files / "running").exists)
        (marker,) = os.listdir(data_dir / "sandboxes")
        yield process, int(marker.split(".")[1])
    finally:
        process.kill()
        process.wait()


def test_a_paused_workers_command_is_killed(folder, data_dir):
    with worker(folder, data_dir) as (process, pid):
        process.send_signal(signal.SIGSTOP)
        assert started_at(pid)

        assert kill_leftovers(folder.session_id) == 1

        wait_until(lambda: started_at(pid) is None)


def test_a_killed_workers_command_ends_with_it(folder, data_dir):
    with worker(folder, data_dir) as (process, pid):
        process.kill()

        wait_until(lambda: started_at(pid) is None)
        assert kill_leftovers(folder.session_id) == 0
        assert os.listdir(data_dir / "sandboxes") == []


def test_other_sessions_and_other_processes_are_left_alone(folder, data_dir):
    with worker(folder, data_dir) as (_, pid):
        other = SessionFolder(workspace_id=folder.workspace_id, session_id=folder.workspace_id)
        (marker,) = os.listdir(data_dir / "sandboxes")
        # The same pid, but of a process that started at another time.
        stale = marker.replace(str(folder.session_id), str(other.session_id))
        begun = started_at(pid) or 0
        (data_dir / "sandboxes" / stale.replace(f".{begun}.", f".{begun - 1}.")).touch()

        assert kill_leftovers(other.session_id) == 0
        assert started_at(pid) == begun


def test_a_finished_command_leaves_no_marker(local, data_dir):
    local.execute("true", seconds=60)

    assert os.listdir(data_dir / "sandboxes") == []
    assert kill_leftovers(local.folder.session_id) == 0


def test_a_session_that_never_ran_a_command_has_no_leftovers(folder):
    assert kill_leftovers(folder.session_id) == 0


def test_destroying_a_sandbox_ends_what_runs_in_it(local, data_dir):
    with worker(local.folder, data_dir) as (process, pid):
        local.destroy()

        wait_until(lambda: started_at(pid) is None)
        assert process.wait(60) == 0
