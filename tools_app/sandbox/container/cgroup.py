"""The control group of a container: its processes, what they use, and its limits.

The kernel limits the memory and the processes of the group as a whole. Versions 1 and 2 of control
groups are supported.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools_app.exceptions import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.base import EndedBy, Limits
from tools_app.sandbox.processes import MEGABYTE, disk_is_full, has_ended, started_at

ROOT = Path("/sys/fs/cgroup")
KILL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Cgroup:
    """The control group of the container with this first process."""

    first_pid: int
    #: The content of /proc/PID/cgroup, the same for every member.
    text: str
    processes: Path
    memory: Path
    cpu: Path
    is_old: bool

    def pids(self) -> Iterator[int]:
        yield from map(int, _read(self.processes / "cgroup.procs").split())

    def cpu_seconds(self) -> float:
        if self.is_old:
            return int(_read(self.cpu / "cpuacct.usage") or 0) / 1e9
        return _named(self.cpu / "cpu.stat", "usage_usec") / 1e6

    def memory_kills(self) -> int:
        """Return how often the kernel killed a process of the group for lack of memory."""
        return _named(
            self.memory / ("memory.oom_control" if self.is_old else "memory.events"), "oom_kill"
        )

    def check(self, limits: Limits) -> None:
        """Verify in the kernel, not with the engine, that the limits are set."""
        memory = "memory.limit_in_bytes" if self.is_old else "memory.max"
        wanted = {
            "memory": (self.memory, memory, limits.memory_mb * MEGABYTE),
            "the number of processes": (self.processes, "pids.max", pids_max(limits)),
        }
        if not self.processes.exists():
            raise SandboxReplaced
        for what, (folder, name, most) in wanted.items():
            if _lowest(folder, name) > most:
                raise SandboxUnavailable(
                    f"The container engine does not limit {what} here. Its control groups must be "
                    "delegated: run it as root, or with systemd and control groups version 2."
                )

    def kill_commands(self) -> bool:
        """Kill all processes but those that keep the container running, and wait for their end."""
        until = time.monotonic() + KILL_SECONDS
        spared = {self.first_pid, _eldest_child(self.first_pid)}
        while time.monotonic() < until:
            left = [pid for pid in self.pids() if pid not in spared and not has_ended(pid)]
            if not left:
                return True
            for pid in left:
                self._kill(pid)
            time.sleep(0.002)
        return False

    def _kill(self, pid: int) -> None:
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                # The handle pins one process: if it is a member, it is the right one.
                if _read(Path(f"/proc/{pid}/cgroup")) == self.text:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


@dataclass(frozen=True, kw_only=True)
class CgroupWatch:
    """Measures what one command uses of its container, and the disk it writes to."""

    group: Cgroup
    files: Path
    limits: Limits
    cpu_before: float
    kills_before: int

    def exceeded(self) -> EndedBy | None:
        if self.group.cpu_seconds() - self.cpu_before > self.limits.cpu_seconds:
            return "cpu"
        if self.group.memory_kills() > self.kills_before:
            return "memory"
        return "disk" if disk_is_full(self.files) else None


def pids_max(limits: Limits) -> int:
    """Return the limit of processes, with the first two of the container, which count too."""
    return limits.pids + 2


def cgroup_of(first_pid: int) -> Cgroup:
    text = _read(Path(f"/proc/{first_pid}/cgroup"))
    if not text:
        raise SandboxReplaced
    places = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        places.update({name: path.lstrip("/") for name in controllers.split(",")})
    is_old = "pids" in places
    if is_old:
        folders = [ROOT / name / places.get(name, "-") for name in ("pids", "memory", "cpuacct")]
    else:
        folders = [ROOT / places.get("", "-")] * 3
    if not all((folder / "cgroup.procs").exists() for folder in folders):
        raise SandboxUnavailable(
            "The container's control group is not visible from here, so its limits cannot be "
            "checked. Run Switchyard on the machine of the container engine, not in a container."
        )
    processes, memory, cpu = folders
    return Cgroup(
        first_pid=first_pid, text=text, processes=processes, memory=memory, cpu=cpu, is_old=is_old
    )


def _eldest_child(pid: int) -> int:
    """Return the oldest child of init, which keeps the container running."""
    children = _read(Path(f"/proc/{pid}/task/{pid}/children")).split()
    return min(map(int, children), key=lambda child: started_at(child) or 0, default=0)


def _lowest(folder: Path, name: str) -> float:
    """Return the lowest limit: it may be set on the group or on any of its parents."""
    found = [float("inf")]
    for place in (folder, *folder.parents):
        if place == ROOT.parent:
            break
        with suppress(ValueError):
            found.append(int(_read(place / name)))
    return min(found)


def _named(path: Path, name: str) -> int:
    pairs = dict(line.split(" ", 1) for line in _read(path).splitlines())
    return int(pairs.get(name, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
