"""Measures what a sandbox uses as a whole, where the limits of the kernel count single processes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings

from tools_app.sandbox.base import EndedBy, Limits
from tools_app.storage import StorageWatch

if TYPE_CHECKING:
    from tools_app.sandbox.cgroup import CommandGroup

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1024 * 1024
#: Fields of /proc/PID/stat after the name: utime, stime, cutime, cstime; and the start time.
_CPU_FIELDS = slice(11, 15)
_START_FIELD = 19
INTERNET = ("tcp", "tcp6", "udp", "udp6")
_SHARE = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class UsageWatch:
    """Checks the processes below the sandbox's first one, and the disk that they write to."""

    first_pid: int
    storage: StorageWatch
    limits: Limits
    #: The control group that limits the memory; without one, buffers are measured here too.
    group: CommandGroup | None = None

    def exceeded(self) -> EndedBy | None:
        """Return the limit that the sandbox as a whole has exceeded, if any."""
        pids = list(_family(self.first_pid))
        if sum(map(_cpu_seconds, pids)) > self.limits.cpu_seconds:
            return "cpu"
        if self.out_of_memory() or self._memory_exceeded(pids):
            return "memory"
        return "disk" if self.storage.exceeded() else None

    def out_of_memory(self) -> bool:
        """Return whether the kernel killed a process at the limit of the control group."""
        return self.group is not None and self.group.memory_kills() > 0

    def _memory_exceeded(self, pids: list[int]) -> bool:
        """Sum up resident pages, which are cheap to read; count shared pages once if that is too much."""
        most = self.limits.process_mb * MEGABYTE
        if self.group is None:
            most -= _buffers(self.first_pid)
        resident = {pid: _resident(pid) for pid in pids}
        if sum(resident.values()) <= most:
            return False
        return sum(_share(pid, resident[pid]) for pid in pids) > most


def _buffers(pid: int) -> int:
    """Return how much the socket buffers in the sandbox can hold, or do hold.

    The queues of Unix sockets are not shown, so each counts with its whole send buffer, which the
    filter of system calls keeps at its default size.
    """
    unix = max(0, _read(f"/proc/{pid}/net/unix").count(b"\n") - 1) * _default_buffer()
    return unix + sum(_queued(f"/proc/{pid}/net/{name}") for name in INTERNET)


def _queued(path: str) -> int:
    """Return the bytes in the send and receive queues, which stand in hexadecimal in field 5."""
    lines = _read(path).splitlines()[1:]
    return sum(int(part, 16) for line in lines for part in line.split()[4].split(b":"))


@cache
def _default_buffer() -> int:
    return int(_read("/proc/sys/net/core/wmem_default") or 212_992)


def has_ended(pid: int) -> bool:
    """Return whether the process is gone, or only waits to be reaped."""
    fields = _stat(pid)
    return not fields or fields[0] in {b"Z", b"X"}


def started_at(pid: int) -> int | None:
    """Return when the process started, in ticks of the kernel; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[_START_FIELD]) if fields else None


def _family(first: int) -> Iterator[int]:
    """Yield the process and all below it. Orphans of a pid namespace return to its first process."""
    waiting = [first]
    while waiting:
        pid = waiting.pop()
        yield pid
        for thread in _threads(pid):
            children = _read(f"/proc/{pid}/task/{thread}/children")
            waiting += map(int, children.split())


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _stat(pid: int) -> list[bytes]:
    # The name stands in parentheses and may contain anything, parentheses too.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of the process and of its children that have ended."""
    return sum(map(int, _stat(pid)[_CPU_FIELDS])) / TICKS


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if fields else 0


def _share(pid: int, resident: int) -> int:
    """Return the proportional share of shared pages, or all of them if it may not be read."""
    found = _SHARE.search(_read(f"/proc/{pid}/smaps_rollup"))
    return int(found[1]) * 1024 if found else resident


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@contextmanager
def mark_running(session_id: UUID, pid: int, *, kind: str = "command") -> Iterator[None]:
    """Keep a marker for the first process of a sandbox while the block runs."""
    folder = _markers(kind)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = folder / f"{session_id}.{process_identity(pid)}"
    marker.touch()
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


def kill_marked(session_id: UUID, *, kind: str = "command") -> int:
    """End every marked sandbox of the session on this machine, and return their number."""
    killed = 0
    for owner, identity in _marked(kind):
        if owner == str(session_id):
            killed += kill(int(identity.partition(".")[0]), identity)
            (_markers(kind) / f"{owner}.{identity}").unlink(missing_ok=True)
    return killed


def marked_sessions(*, kind: str = "command") -> list[UUID]:
    """Return the sessions whose sandboxes run on this machine now."""
    return [
        UUID(owner)
        for owner, identity in _marked(kind)
        if process_identity(int(identity.partition(".")[0])) == identity
    ]


def _marked(kind: str) -> list[tuple[str, str]]:
    """Return the session and the identity of the first process of every marked sandbox.

    Another boot id may be another machine on the same disk, whose processes are out of reach.
    """
    try:
        names = os.listdir(_markers(kind))
    except FileNotFoundError:
        return []
    parts = (name.partition(".") for name in names if name.endswith(boot()))
    return [(owner, identity) for owner, _, identity in parts]


def kill(pid: int, identity: str, number: int = signal.SIGKILL) -> bool:
    """Signal exactly this process. The first process of a pid namespace takes all others with it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The handle pins one process, so its identity cannot change any more.
        if identity != process_identity(pid):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _markers(kind: str) -> Path:
    return Path(settings.DATA_DIR) / ("sandboxes" if kind == "command" else "terminals")


def process_identity(pid: int) -> str:
    """Identify a process across reuse of its pid, by its start time and the boot id."""
    return f"{pid}.{started_at(pid)}.{boot()}"


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
