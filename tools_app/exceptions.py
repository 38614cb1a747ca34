"""The errors of tools, sandboxes, session files and MCP servers."""

from __future__ import annotations

from core.exceptions import Fault


class ToolFailed(Fault):
    """The tool failed."""

    code = "tool_failed"
    status = 422


class ToolStopped(Fault):
    """The tool was stopped before it finished."""

    code = "tool_stopped"
    status = 409


class OutcomeUnknown(Fault):
    """The call was sent, but no answer came. Whether it took effect is not known."""

    code = "outcome_unknown"
    status = 502


class SandboxUnavailable(ToolFailed):
    """Commands cannot run here: this machine cannot enforce the limits of the sandbox."""

    code = "sandbox_unavailable"
    status = 503


class TooManySandboxes(ToolFailed):
    """The agents of this workspace already use as many sandboxes as they may."""

    code = "too_many_sandboxes"
    status = 409


class SandboxReplaced(ToolFailed):
    """The sandbox was replaced while the command ran. Its files were kept. Try again."""

    code = "sandbox_replaced"
    status = 409


class KeeperLost(Fault):
    """The process that ran this command is gone, so its outcome is not known."""

    code = "keeper_lost"
    status = 502


class ResourceFailed(Fault):
    """This resource could not be prepared."""

    code = "resource_failed"
    status = 422


class FileTooLarge(Fault):
    """This file is larger than a session accepts."""

    code = "file_too_large"
    status = 413


class QuotaExceeded(ToolFailed):
    """There is no room left for this file."""

    code = "storage_quota"
    status = 507


class DiskFull(ToolFailed):
    """The server's disk is almost full, so nothing new is accepted. Nothing was lost. Ask the operator to free some space."""

    code = "disk_full"
    status = 507


class McpFailed(Fault):
    """The MCP server could not be used."""

    code = "mcp_failed"
    status = 502

    def __init__(self, detail: str = "", *, state: str = "failed") -> None:
        super().__init__(detail)
        #: The new status of the server: `down`, `refused` or `failed`.
        self.state = state
