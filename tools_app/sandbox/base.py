"""What the runtime knows of a sandbox: one Protocol, one result, one set of limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from pydantic import ConfigDict, Field

from agents.limits import SandboxLimits
from tools_app.listing import Entry

#: Why a command is over: it ended by itself, or a limit or a person ended it.
EndedBy: TypeAlias = Literal["itself", "time", "stop", "cpu", "memory", "disk"]


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """What became of one command. `exit_code` is None when it did not end by itself."""

    exit_code: int | None
    output: str
    ended_by: EndedBy = "itself"


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder or file that a session sees beside its own files.

    The runtime made `source`; no command can replace it or what lies above it. Without a source it
    could not be prepared, and `missing` says why.
    """

    source: Path | None
    target: str
    writable: bool = False
    missing: str = ""


class Limits(SandboxLimits):
    """What one command and everything it starts may use: what its environment says, and the rest."""

    #: A limit that a later release dropped must not stop the environments that still name it.
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
    """A shell with a screen, for a person. It ends when it is closed, or by itself."""

    def read(self, seconds: float) -> bytes | None:
        """What the shell wrote, b"" when it wrote nothing in that time, None when it is over."""

    def write(self, data: bytes) -> None:
        """Type."""

    def resize(self, columns: int, rows: int) -> None:
        """Tell the programs inside how large the screen is now."""

    def close(self) -> None:
        """End the shell and everything it started. May be called twice."""


class Sandbox(Protocol):
    """A place to run commands of one session. Its files outlive it."""

    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        """Run one bash command line and everything it starts, and leave nothing running."""

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        """A shell, or this command, on a screen. It may run beside commands."""

    def destroy(self) -> None:
        """End whatever runs in it. The session's files stay."""

    def read(self, path: str, *, limit: int = ...) -> bytes:
        """The beginning of a file of the workspace, at most `limit` bytes of it."""

    def write(self, path: str, content: bytes) -> bool:
        """Put a file in place at once, with its folders, and say whether it is new."""

    def list(self, path: str = ".", *, limit: int = ...) -> Sequence[Entry]:
        """What lies in a folder of the workspace."""
