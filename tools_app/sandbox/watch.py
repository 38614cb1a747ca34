"""Watches what a sandbox uses as a whole, where the kernel's limits count only single processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools_app.sandbox.base import EndedBy, Limits

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1024 * 1024
#: The machine keeps this much of its disk, whatever a command writes.
DISK_RESERVE_MB = 512
DISK_RESERVE_INODES = 1_000
#: Positions behind the name in /proc/PID/stat: utime, stime, cutime, cstime; and the start.
_CPU_FIELDS = slice(11, 15)
_START_FIELD = 19
_SHARE = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Looks at the processes below the sandbox's first one, and at the disk they write to."""

    first_pid: int
    files: Path
    limits: Limits

    def exceeded(self) -> EndedBy | None:
        """Which limit the sandbox as a whole has passed, if any."""
        pids = list(_family(self.first_pid))
        if sum(map(_cpu_seconds, pids)) > self.limits.cpu_seconds:
            return "cpu"
        if self._memory_exceeded(pids):
            return "memory"
        return "disk" if disk_is_full(self.files) else None

    def _memory_exceeded(self, pids: list[int]) -> bool:
        """Resident pages first, as they are cheap to read; shares only when those look too many."""
        most = self.limits.process_mb * MEGABYTE
        resident = {pid: _resident(pid) for pid in pids}
        if sum(resident.values()) <= most:
            return False
        return sum(_share(pid, resident[pid]) for pid in pids) > most


def disk_is_full(files: Path) -> bool:
    disk = os.statvfs(files)
    few_inodes = disk.f_files > 0 and disk.f_favail < DISK_RESERVE_INODES
    return few_inodes or disk.f_bavail * disk.f_frsize < DISK_RESERVE_MB * MEGABYTE


def has_ended(pid: int) -> bool:
    """Gone, or only waiting for its parent to take notice."""
    fields = _stat(pid)
    return not fields or fields[0] in {b"Z", b"X"}


def started_at(pid: int) -> int | None:
    """When the process began, in the kernel's ticks; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[_START_FIELD]) if fields else None


def _family(first: int) -> Iterator[int]:
    """The process and all below it. Orphans of a pid namespace return to its first process."""
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
    # The name stands in brackets and may hold anything, brackets too.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _cpu_seconds(pid: int) -> float:
    """Of the process, and of its children that have ended."""
    return sum(map(int, _stat(pid)[_CPU_FIELDS])) / TICKS


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if fields else 0


def _share(pid: int, resident: int) -> int:
    """Pages that several processes share count in parts. Without leave to look, all of them."""
    found = _SHARE.search(_read(f"/proc/{pid}/smaps_rollup"))
    return int(found[1]) * 1024 if found else resident


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
