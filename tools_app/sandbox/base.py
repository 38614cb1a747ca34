"""What the runtime knows of a sandbox: one Protocol, one result, one set of limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

#: Why a command is over: it ended by itself, or a limit or a person ended it.
EndedBy: TypeAlias = Literal["itself", "time", "stop", "cpu", "memory", "disk"]


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """What became of one command. `exit_code` is None when it did not end by itself."""

    exit_code: int | None
    output: str
    ended_by: EndedBy = "itself"

    @property
    def timed_out(self) -> bool:
        return self.ended_by == "time"


class Limits(BaseModel):
    """What one command and everything it starts may use."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cpu_seconds: int = Field(default=300, ge=1, le=86_400)
    memory_mb: int = Field(default=1024, ge=64, le=1_048_576)
    pids: int = Field(default=128, ge=4, le=32_768)
    wall_seconds: int = Field(default=600, ge=1, le=86_400)
    file_mb: int = Field(default=512, ge=1, le=1_048_576)

    @property
    def scratch_mb(self) -> int:
        """The part of the memory that /tmp and /dev/shm may fill."""
        return self.memory_mb // 4

    @property
    def process_mb(self) -> int:
        """The part of the memory that is left for processes."""
        return self.memory_mb - self.scratch_mb


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

    def destroy(self) -> None:
        """End whatever runs in it. The session's files stay."""
