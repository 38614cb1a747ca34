"""Remembers which sandboxes run, so that a new holder of a session can end what an older left.

A worker that dies takes its sandboxes with it. One that was only paused does not: its commands
go on while somebody else holds the lane. So each running sandbox has a marker on disk, written
before its command starts.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.conf import settings

from tools_app.sandbox.watch import started_at


@contextmanager
def marked(session_id: UUID, pid: int, *, kind: str = "command") -> Iterator[None]:
    """Keep a marker of this sandbox's first process while the block runs."""
    folder = _markers(kind)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = folder / f"{session_id}.{identity_of(pid)}"
    marker.touch()
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


def kill_marked(session_id: UUID, *, kind: str = "command") -> int:
    """End every marked sandbox of the session on this machine, and say how many."""
    try:
        markers = os.listdir(_markers(kind))
    except FileNotFoundError:
        return 0
    killed = 0
    for marker in markers:
        owner, _, identity = marker.partition(".")
        # Another boot may be another machine on the same disk: its processes are out of reach.
        if owner == str(session_id) and identity.endswith(boot()):
            killed += kill(int(identity.partition(".")[0]), identity)
            (_markers(kind) / marker).unlink(missing_ok=True)
    return killed


def marked_sessions(*, kind: str = "command") -> list[UUID]:
    """Whose sandboxes run on this machine now."""
    try:
        names = os.listdir(_markers(kind))
    except FileNotFoundError:
        return []
    found = [name.partition(".") for name in names if name.endswith(boot())]
    return [
        UUID(owner)
        for owner, _, identity in found
        if identity_of(int(identity.partition(".")[0])) == identity
    ]


def kill(pid: int, identity: str, number: int = signal.SIGKILL) -> bool:
    """Signal one process and no other. The first of a pid namespace takes all others with it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The handle holds on to one process, so its identity cannot change any more.
        if identity != identity_of(pid):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _markers(kind: str) -> Path:
    return Path(settings.DATA_DIR) / ("sandboxes" if kind == "command" else "terminals")


def identity_of(pid: int) -> str:
    """Pids come round again: only together with start and boot do they name one process."""
    return f"{pid}.{started_at(pid)}.{boot()}"


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
