"""Runs one program of the machine within bounds: its time, and the size of the folder it fills."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from config.faults import ResourceFailed
from sessions_app.preparing.job import MOST_BYTES, MOST_FILES, Job
from tools_app.folder import acting_gid, acting_uid

LOOK_SECONDS = 0.25
KEPT = 8_000


def run_bounded(
    command: list[str], environment: dict[str, str], *, folder: Path, job: Job
) -> tuple[int, str]:
    """Its exit code, and what it said last. When it goes too far it is killed with its children."""
    as_root = os.geteuid() == 0  # the user without rights does it, to whom the folder belongs
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            user=acting_uid() if as_root else None,
            group=acting_gid() if as_root else None,
            extra_groups=[] if as_root else None,
        )
        try:
            code = _wait(process, folder, job)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(max(0, said.seek(0, 2) - KEPT))
        return code, said.read().decode("utf-8", "replace")


def _wait(process: subprocess.Popen[bytes], folder: Path, job: Job) -> int:
    while True:
        try:
            code = process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            job.check()
            check_size(folder)
            continue
        check_size(folder)
        return code


def check_size(folder: Path) -> None:
    """Raise when the folder holds more than a resource may bring along."""
    size = files = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(here, name)).st_size
            files += 1
        if size > MOST_BYTES or files > MOST_FILES:
            raise ResourceFailed(
                f"It is larger than {MOST_BYTES // 1024 // 1024:,} MB or {MOST_FILES:,} files."
            )
