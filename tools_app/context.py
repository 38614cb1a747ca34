"""The context of a tool call: who makes it, and how the tool stops, reports progress and acts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.sandbox.base import Mount, Sandbox

#: How often a waiting tool checks whether it was stopped.
LOOK_UP_SECONDS = 0.1


def _silent(text: str) -> None:
    """Discard the text."""


def _unfenced() -> None:
    """Check nothing: no other worker can hold this session."""


def _untainted() -> bool:
    """Outside a session there is no untrusted content to have read."""
    return False


def _allowed(input: Mapping[str, Any]) -> str:
    """Allow the call: no policy applies."""
    return "allow"


class Parked:
    """Returned by a tool whose call goes on elsewhere, from where its result comes later.

    The tool marks its call as parked in the transaction that starts the other work.
    """


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    workspace_id: UUID
    session_id: UUID
    agent_id: UUID
    run_id: UUID
    #: The same across retries of one call.
    call_id: str
    #: Provisioned on first use; see `tools_app.sandbox.LazySandbox`.
    sandbox: Sandbox
    #: The agent that a builder builds in this session.
    about_id: UUID | None = None
    #: What file tools reach beside the session's own files.
    mounts: tuple[Mount, ...] = ()
    #: The person whose message is being answered, if a person sent it.
    user_id: UUID | None = None
    #: The policy's verdict on a call of this tool with other arguments: `allow`, `ask` or `deny`.
    judge: Callable[[Mapping[str, Any]], str] = _allowed
    #: Shows text to viewers while the tool is running.
    emit: Callable[[str], None] = _silent
    #: Whether the session has read untrusted content by now. Asks the database at every call.
    is_tainted: Callable[[], bool] = _untainted
    #: Called first in a transaction that writes: raises if another worker holds the session by now,
    #: and keeps others from taking it until the commit.
    fence: Callable[[], None] = _unfenced
    #: Set on interrupt or shutdown. A tool must end within a second.
    stopped: threading.Event = field(default_factory=threading.Event)
    #: On the clock of `time.monotonic()`.
    deadline: float = float("inf")

    def remaining(self) -> float:
        """Return the seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def check_stopped(self) -> None:
        """Raise if the call was stopped or its time is up."""
        if self.stopped.is_set():
            raise ToolStopped
        if not self.remaining():
            raise ToolFailed("The tool ran out of time.")

    def pause(self, seconds: float) -> None:
        """Sleep, but wake up and raise as soon as the call is stopped."""
        self.check_stopped()
        self.stopped.wait(min(seconds, self.remaining()))
        self.check_stopped()
