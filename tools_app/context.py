"""What a tool is given beside its arguments: whose call it is, and how to stop, speak and act."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from config.faults import ToolFailed, ToolStopped
from tools_app.sandbox.base import Mount, Sandbox

#: How often a waiting tool looks up to see whether it was stopped.
LOOK_UP_SECONDS = 0.1


def _silent(text: str) -> None:
    """Nobody is watching."""


def _unfenced() -> None:
    """Nobody else can hold this session."""


def _allowed(input: Mapping[str, Any]) -> str:
    """No policy binds this call."""
    return "allow"


class Parked:
    """What a tool returns whose call goes on elsewhere: its result comes later, from there.

    The tool marked its call as parked in the transaction that began the other thing.
    """


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    workspace_id: UUID
    session_id: UUID
    agent_id: UUID
    run_id: UUID
    #: Stable across retries of one call.
    call_id: str
    #: Provisioned at its first use; see `tools_app.sandbox.LazySandbox`.
    sandbox: Sandbox
    #: The agent that a builder builds in this session.
    about_id: UUID | None = None
    #: What file tools reach beside the session's own files.
    mounts: tuple[Mount, ...] = ()
    #: The person whose message is answered, if it came from one.
    user_id: UUID | None = None
    #: The policy's word on a call of the same tool with other arguments: `allow`, `ask` or `deny`.
    judge: Callable[[Mapping[str, Any]], str] = _allowed
    #: Shows text to whoever watches, while the tool still runs.
    emit: Callable[[str], None] = _silent
    #: Called first in a transaction that writes: raises when another worker holds the session by
    #: now, and keeps it so until the commit.
    fence: Callable[[], None] = _unfenced
    #: Set on interrupt or shutdown. A tool ends within a second of it.
    stopped: threading.Event = field(default_factory=threading.Event)
    #: On the clock of `time.monotonic()`.
    deadline: float = float("inf")

    def remaining(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def check_stopped(self) -> None:
        """Raise when the call was stopped or has used up its time."""
        if self.stopped.is_set():
            raise ToolStopped
        if not self.remaining():
            raise ToolFailed("The tool's time was up before it was done.")

    def pause(self, seconds: float) -> None:
        """Sleep, but wake at once and raise when stopped."""
        self.check_stopped()
        self.stopped.wait(min(seconds, self.remaining()))
        self.check_stopped()
