"""What goes wrong in a tool, its sandbox, its files and its memory."""

from __future__ import annotations

from config.faults.base import Fault
from config.faults.requests import StaleWrite


class ToolFailed(Fault):
    """The tool could not do what was asked."""

    code = "tool_failed"
    status = 422


class ToolStopped(Fault):
    """The tool was stopped before it was done."""

    code = "tool_stopped"
    status = 409


class OutcomeUnknown(Fault):
    """The call was sent and no answer came. Whether it took effect is not known."""

    code = "outcome_unknown"
    status = 502


class SandboxUnavailable(ToolFailed):
    """Commands cannot run here: this machine cannot enforce what the sandbox promises."""

    code = "sandbox_unavailable"
    status = 503


class SandboxReplaced(ToolFailed):
    """The sandbox was taken away while this was going on, and its files stayed. Try again."""

    code = "sandbox_replaced"
    status = 409


class KeeperLost(Fault):
    """The process that kept this command is gone, and nobody saw how the command ended."""

    code = "keeper_lost"
    status = 502


class ResourceFailed(Fault):
    """This resource could not be prepared."""

    code = "resource_failed"
    status = 422


class FileTooLarge(Fault):
    """This file is larger than a session takes."""

    code = "file_too_large"
    status = 413


class MemoryConflict(StaleWrite):
    """Someone wrote this document first. Read the newer version, then write again."""

    code = "memory_conflict"


class MemoryTooLarge(Fault):
    """A document of memory holds at most 100,000 bytes. Split it into several."""

    code = "memory_too_large"
    status = 413


class McpFailed(Fault):
    """The MCP server did not do what was asked."""

    code = "mcp_failed"
    status = 502

    def __init__(self, detail: str = "", *, state: str = "failed") -> None:
        super().__init__(detail)
        #: What the server's row says: it is down, it refused, or it failed.
        self.state = state
