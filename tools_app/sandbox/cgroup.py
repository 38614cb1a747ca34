"""The control groups of sandboxes: their processes, what they use, and their limits.

The kernel limits the memory of the group as a whole, with socket buffers, the page cache and files in
memory, and how fast it reads and writes the disk of DATA_DIR. A container has a group from its engine.
A local command gets one of its own where this machine lets Switchyard make one. Versions 1 and 2 of
control groups are supported; version 1 does not count writes that the kernel delays.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex

from django.conf import settings

from tools_app.exceptions import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.base import EndedBy, Limits
from tools_app.sandbox.processes import (
    MEGABYTE,
    boot,
    has_ended,
    process_identity,
    started_at,
)
from tools_app.storage import StorageWatch

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
    disk: Path
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
        if self.is_old:
            _limit_tcp(self.memory, limits)
        limit_disk(self.disk)

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
    storage: StorageWatch
    limits: Limits
    cpu_before: float
    kills_before: int

    def exceeded(self) -> EndedBy | None:
        if self.group.cpu_seconds() - self.cpu_before > self.limits.cpu_seconds:
            return "cpu"
        if self.group.memory_kills() > self.kills_before:
            return "memory"
        return "disk" if self.storage.exceeded() else None


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
        names = ("pids", "memory", "cpuacct", "blkio")
        folders = [ROOT / name / places.get(name, "-") for name in names]
    else:
        folders = [ROOT / places.get("", "-")] * 4
    if not all((folder / "cgroup.procs").exists() for folder in folders[:3]):
        raise SandboxUnavailable(
            "The container's control group is not visible from here, so its limits cannot be "
            "checked. Run Switchyard on the machine of the container engine, not in a container."
        )
    processes, memory, cpu, disk = folders
    return Cgroup(
        first_pid=first_pid,
        text=text,
        processes=processes,
        memory=memory,
        cpu=cpu,
        disk=disk,
        is_old=is_old,
    )


# ── The disk ─────────────────────────────────────────────────────────────────


def disk_device(folder: Path) -> str:
    """Return the whole disk under a folder as `major:minor`; empty if it is not on one disk."""
    number = os.stat(folder).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if (device / "partition").exists():
        device = device.resolve().parent
    return _read(device / "dev").strip()


def limit_disk(folder: Path) -> bool:
    """Limit how fast a group reads and writes the disk of DATA_DIR. Return whether the kernel does."""
    device = disk_device(Path(settings.DATA_DIR))
    rate = settings.SANDBOX_DISK_MB_PER_SECOND * MEGABYTE
    if not device or not rate:
        return False
    newer = folder / "io.max"
    if newer.exists():
        return _try_write(newer, f"{device} rbps={rate} wbps={rate}")
    older = [folder / f"blkio.throttle.{what}_bps_device" for what in ("read", "write")]
    return all(path.exists() and _try_write(path, f"{device} {rate}") for path in older)


# ── The group of a local command ─────────────────────────────────────────────

#: The name of a group begins with this and the identity of the process that made it.
PREFIX = "switchyard-"
UNAVAILABLE = (
    "Switchyard may not make control groups here, so the memory of local commands is measured a few "
    "times a second instead of limited by the kernel. Run it as root, or as a systemd service with "
    "Delegate=yes and DelegateSubgroup=main."
)


@dataclass(frozen=True, kw_only=True)
class CommandGroup:
    """A control group that was made for one command."""

    folder: Path
    is_old: bool
    #: The same group in the hierarchy that limits the disk, which version 1 has apart.
    disk_folder: Path
    limits_disk: bool

    def add(self, pid: int) -> None:
        """Move a process into the group. What it starts from then on is in the group too."""
        folders = {self.folder, self.disk_folder} if self.limits_disk else {self.folder}
        try:
            for folder in folders:
                (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise SandboxUnavailable(
                f"The command cannot be put into its control group: {error}."
            ) from error

    def memory_kills(self) -> int:
        """Return how often the kernel killed a process of the group for lack of memory."""
        return _named(
            self.folder / ("memory.oom_control" if self.is_old else "memory.events"), "oom_kill"
        )


@contextmanager
def command_group(limits: Limits) -> Iterator[CommandGroup | None]:
    """Make a control group with these limits for one command; yield None if none can be made."""
    group = _make_group(limits)
    try:
        yield group
    finally:
        if group:
            for folder in {group.folder, group.disk_folder}:
                _remove_group(folder)


@dataclass(frozen=True, kw_only=True)
class GroupAbility:
    """What the control groups of local commands limit on this machine."""

    memory: bool
    disk: bool
    is_old: bool


def group_ability() -> GroupAbility:
    with command_group(Limits()) as group:
        if group is None:
            return GroupAbility(memory=False, disk=False, is_old=False)
        return GroupAbility(memory=True, disk=group.limits_disk, is_old=group.is_old)


def _make_group(limits: Limits) -> CommandGroup | None:
    found = _parent_group()
    if found is None:
        return None
    parent, disk_parent, is_old = found
    _remove_lost_groups(parent)
    name = f"{PREFIX}{process_identity(os.getpid())}.{token_hex(4)}"
    folder, disk_folder = parent / name, disk_parent / name
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        _set_limits(folder, limits, is_old=is_old)
    except OSError:
        _remove_group(folder)
        return None
    if is_old:
        _remove_lost_groups(disk_parent)
        with suppress(OSError):
            disk_folder.mkdir()
    return CommandGroup(
        folder=folder,
        is_old=is_old,
        disk_folder=disk_folder,
        limits_disk=limit_disk(disk_folder),
    )


def _parent_group() -> tuple[Path, Path, bool] | None:
    """Return the groups to make groups in, for memory and for the disk, and whether they are old.

    It is the own group, or in version 2 the one above it: a group of version 2 that has processes
    cannot have groups with limits below it.
    """
    places = {}
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        places.update({name: path.lstrip("/") for name in controllers.split(",")})
    if "memory" in places:
        own = ROOT / "memory" / places["memory"]
        disk = ROOT / "blkio" / places.get("blkio", "-")
        return (own, disk, True) if own.is_dir() else None
    own = ROOT / places.get("", "-")
    above = own.parent if own != ROOT else own
    if "memory" not in _read(above / "cgroup.controllers").split():
        return None
    return above, above, False


def _set_limits(folder: Path, limits: Limits, *, is_old: bool) -> None:
    memory = str(limits.memory_mb * MEGABYTE)
    if is_old:
        (folder / "memory.limit_in_bytes").write_text(memory)
        _try_write(folder / "memory.memsw.limit_in_bytes", memory)
        _limit_tcp(folder, limits)
        return
    if "memory" not in _read(folder.parent / "cgroup.subtree_control").split():
        (folder.parent / "cgroup.subtree_control").write_text("+memory")
    if "io" not in _read(folder.parent / "cgroup.subtree_control").split():
        _try_write(folder.parent / "cgroup.subtree_control", "+io")
    (folder / "memory.max").write_text(memory)
    _try_write(folder / "memory.swap.max", "0")


def _limit_tcp(folder: Path, limits: Limits) -> None:
    """Limit the buffers of network sockets, which version 1 counts apart from other memory."""
    _try_write(folder / "memory.kmem.tcp.limit_in_bytes", str(limits.scratch_mb * MEGABYTE))


def _try_write(path: Path, value: str) -> bool:
    try:
        path.write_text(value)
    except OSError:
        return False
    return True


def _remove_group(folder: Path) -> None:
    """Remove a group. Its processes are dead, but the kernel may take a moment to let go of them."""
    until = time.monotonic() + KILL_SECONDS
    while time.monotonic() < until:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.002)
        else:
            return


@cache
def _remove_lost_groups(parent: Path) -> None:
    """Remove the groups of processes that died before they could, once in the life of a process."""
    for folder in parent.glob(f"{PREFIX}*"):
        identity = folder.name.removeprefix(PREFIX).rpartition(".")[0]
        pid = identity.partition(".")[0]
        if identity.endswith(boot()) and process_identity(int(pid)) != identity:
            with suppress(OSError):
                folder.rmdir()


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
