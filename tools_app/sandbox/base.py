"""The interface of sandboxes and terminals, with limits, mounts and results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from pydantic import ConfigDict, Field

from agents.limits import SandboxLimits
from tools_app.files import SessionFolder, make_mount_points
from tools_app.sandbox.host import check_passable
from tools_app.sandbox.network import NO_NETWORK, Network
from tools_app.storage import StorageWatch, check_disk

#: Why a command is over: it ended by itself, or a limit or a person ended it.
EndedBy: TypeAlias = Literal["itself", "time", "stop", "cpu", "memory", "disk"]


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """The result of one command. `exit_code` is None if it did not end by itself."""

    exit_code: int | None
    output: str
    ended_by: EndedBy = "itself"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder or file that a session sees beside its own files.

    Switchyard created `source`, and no command can replace it or its parents. Without a source the
    mount could not be prepared, and `missing` says why.
    """

    source: Path | None
    target: str
    writable: bool = False
    missing: str = ""


class Limits(SandboxLimits):
    """What one command and everything it starts may use."""

    #: A limit that a later release dropped must not break environments that still name it.
    model_config = ConfigDict(extra="ignore")

    file_mb: int = Field(default=512, ge=1, le=1_048_576)

    @property
    def scratch_mb(self) -> int:
        """The part of the memory that /tmp and /dev/shm may fill."""
        return self.memory_mb // 4

    @property
    def process_mb(self) -> int:
        """The part of the memory that is left for processes."""
        return self.memory_mb - self.scratch_mb


class Terminal(Protocol):
    """A shell with a screen, for a person. It ends by itself or when it is closed."""

    def read(self, seconds: float) -> bytes | None:
        """Return what the shell wrote, b"" if it wrote nothing in that time, None if it has ended."""

    def write(self, data: bytes) -> None:
        """Send input to the shell."""

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the screen."""

    def close(self) -> None:
        """End the shell and everything it started. May be called twice."""


class Sandbox(Protocol):
    """Runs the commands of one session. The session's files outlive it."""

    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        """Run one bash command line, and leave nothing running that it started."""

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        """Start a shell, or this command, on a screen. It may run beside commands."""

    def destroy(self) -> None:
        """End everything that runs in it. The session's files stay."""


@dataclass(frozen=True, kw_only=True)
class SandboxBase:
    """The part that all kinds of sandbox share: what they are made from, and their folder."""

    folder: SessionFolder
    limits: Limits
    network: Network = NO_NETWORK
    mounts: tuple[Mount, ...] = ()

    def make(self) -> Path:
        """Create the session's folder and the mount points in it."""
        files = self.folder.make()
        check_passable(files)
        check_disk(files)
        make_mount_points(self.folder, self.mounts)
        return files

    def watch_storage(self) -> StorageWatch:
        """Return a watch over everything that a command in this sandbox can write to on the disk."""
        self.folder.make()
        shared = [mount.source for mount in self.mounts if mount.source and mount.writable]
        return StorageWatch([self.folder.root, *shared])
