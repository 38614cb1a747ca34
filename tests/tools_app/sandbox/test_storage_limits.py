"""Tests that a command in either kind of sandbox cannot fill the disk."""

from __future__ import annotations

import threading
import time

import pytest

from core.ids import uuid7
from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS, reconfigured, run, skip_or_fail
from tools_app.files import SessionFolder
from tools_app.sandbox import cgroup, provisioning
from tools_app.sandbox.base import Mount
from tools_app.sandbox.local import LocalSandbox
from tools_app.storage import MEGABYTE, measure

#: What a command may store beyond its quota before it is stopped: what it writes between two looks.
OVERSHOOT = 600 * MEGABYTE
ENDLESS = "n=0; while :; do n=$((n+1)); head -c 4000000 /dev/zero > part$n || exit 9; done"


@pytest.fixture(autouse=True)
def quota(settings):
    settings.SESSION_STORAGE_MB = 64


@pytest.mark.soak(rounds=20)
def test_a_command_that_writes_files_without_end_is_stopped_near_its_quota(sandbox, files):
    result = sandbox.execute(ENDLESS, seconds=TIMEOUT_SECONDS)

    assert result.ended_by == "disk"
    assert 64 * MEGABYTE < measure(files).bytes < 64 * MEGABYTE + OVERSHOOT


def test_other_sessions_go_on_while_one_fills_its_quota(sandbox, folder):
    other = reconfigured(
        sandbox, folder=SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())
    )
    flooding = threading.Thread(target=sandbox.execute, args=(ENDLESS,), kwargs={"seconds": 60})
    flooding.start()
    try:
        assert run(other, "echo hi > file; cat file") == "hi\n"
    finally:
        flooding.join()
        other.destroy()


def test_the_kernel_stops_a_single_file_at_the_room_that_is_left(sandbox, files):
    (files / "before").write_bytes(b"x" * 40 * MEGABYTE)

    result = sandbox.execute(
        "head -c 900000000 /dev/zero > big; echo done", seconds=TIMEOUT_SECONDS
    )

    assert result.exit_code == 0
    assert (files / "big").stat().st_size <= 24 * MEGABYTE


def test_a_full_session_can_still_run_a_command_that_cleans_up(sandbox, files):
    sandbox.execute(ENDLESS, seconds=TIMEOUT_SECONDS)

    assert (
        run(sandbox, "rm part*; echo clean; head -c 3000000 /dev/zero > new; ls") == "clean\nnew\n"
    )


def test_space_that_is_allocated_and_not_written_counts_too(sandbox, files):
    result = sandbox.execute(
        "for n in 1 2 3 4 5 6 7 8; do fallocate -l 20M $n; done; sleep 60", seconds=TIMEOUT_SECONDS
    )

    assert result.ended_by == "disk"


def test_the_number_of_files_is_limited(sandbox, settings):
    settings.SESSION_STORAGE_FILES = 500

    result = sandbox.execute(
        "mkdir -p d; n=0; while :; do n=$((n+1)); : > d/$n; done", seconds=TIMEOUT_SECONDS
    )

    assert result.ended_by == "disk"


def test_a_shared_directory_counts_for_the_workspace(local, data_dir, settings, folder):
    settings.WORKSPACE_STORAGE_MB = 64
    settings.SESSION_STORAGE_MB = 0
    shared = data_dir / "shared" / str(folder.workspace_id) / "data"
    shared.mkdir(parents=True)
    for parent in (shared, *shared.parents[:2]):
        parent.chmod(0o777)
    mount = Mount(source=shared, target="/workspace/data", writable=True)

    result = reconfigured(local, mounts=(mount,)).execute(
        f"cd data; {ENDLESS}", seconds=TIMEOUT_SECONDS
    )

    assert result.ended_by == "disk"


def test_a_terminal_that_fills_its_quota_is_closed(sandbox, files):
    terminal = sandbox.open_terminal(ENDLESS)
    try:
        while terminal.read(1) is not None:
            assert measure(files).bytes < 64 * MEGABYTE + OVERSHOOT
    finally:
        terminal.close()


SLOW_MB_PER_SECOND, WRITTEN_MB = 2, 6
#: Writing past the page cache, which version 1 of control groups counts too.
WRITE = f"dd if=/dev/zero of=big bs=1M count={WRITTEN_MB} oflag=direct 2>&1"


def test_the_kernel_slows_down_a_command_that_writes_too_fast(sandbox, settings):
    if isinstance(sandbox, LocalSandbox) and not cgroup.group_ability().disk:
        skip_or_fail("the disk cannot be limited here")
    settings.SANDBOX_DISK_MB_PER_SECOND = SLOW_MB_PER_SECOND
    run(sandbox, "true")  # a container is made first
    began = time.monotonic()

    assert "copied" in run(sandbox, WRITE)
    # Only a lower bound: the kernel allows a burst at the beginning.
    assert time.monotonic() - began > WRITTEN_MB / SLOW_MB_PER_SECOND / 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda monkeypatch, settings: setattr(settings, "SANDBOX_DISK_MB_PER_SECOND", 0), "is 0"),
        (
            lambda monkeypatch, settings: monkeypatch.setattr(cgroup, "disk_device", lambda _: ""),
            "control groups with disk limits",
        ),
        (
            lambda monkeypatch, settings: monkeypatch.setattr(
                cgroup, "_parent_group", lambda: None
            ),
            "may not make control groups",
        ),
    ],
    ids=["no limit set", "no disk found", "no control group"],
)
def test_the_report_says_where_the_disk_is_not_limited(local, settings, monkeypatch, change, words):
    change(monkeypatch, settings)
    (line,) = [one for one in provisioning.enforcement() if "speed of the disk" in one]

    assert "not limited" in line
    assert words in line
