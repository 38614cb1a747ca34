"""Calls a tool of an MCP server for a session, and says what came of it.

A call holds no connection to the database while it waits, ends when it is stopped, and leaves no
credential in what it answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone
from pydantic import BaseModel

from config.faults import Fault, OutcomeUnknown, ToolFailed, ToolStopped
from tenants.masking import mask
from tenants.off_loop import let_go
from tools_app.context import ToolContext
from tools_app.fence import fenced
from tools_app.folder import SessionFolder
from tools_app.mcp.reach import endpoint_of
from tools_app.models import McpServer


@dataclass(frozen=True, kw_only=True)
class Call:
    """What runs when an agent calls one tool of one server."""

    server_id: UUID
    tool: str

    def __call__(self, arguments: BaseModel, context: ToolContext) -> str:
        context.check_stopped()
        server = McpServer.objects.for_workspace(context.workspace_id).filter(pk=self.server_id)
        found = server.first()
        if found is None or not found.enabled:
            raise ToolFailed("This MCP server was taken away or switched off.")
        try:
            return self._ask(found, arguments.model_dump(), context)
        except ToolStopped:
            raise
        except OutcomeUnknown as fault:
            server.update(due_at=timezone.now())
            detail = mask(context.workspace_id, fault.detail)
            raise OutcomeUnknown(f"{detail} Whether the call took effect is not known.") from None
        except Fault as fault:
            raise ToolFailed(mask(context.workspace_id, fault.detail)) from None

    def _ask(self, server: McpServer, arguments: dict[str, Any], context: ToolContext) -> str:
        from tools_app.mcp.client import call_tool
        from tools_app.mcp.output import text_of
        from tools_app.mcp.stdio import Place

        folder = SessionFolder(workspace_id=context.workspace_id, session_id=context.session_id)
        place = Place(folder=folder, sandbox=context.sandbox) if server.command else None
        endpoint = endpoint_of(server, place)
        let_go()
        answer = call_tool(
            endpoint,
            self.tool,
            arguments,
            seconds=min(server.timeout_seconds, context.remaining()),
            stopped=context.stopped,
        )
        if answer.tools_changed:
            McpServer.objects.filter(pk=server.pk).update(due_at=timezone.now())
        said = text_of(answer.result, endpoint.clean)
        if answer.result.is_error:
            # The context of a model fences what a call that failed was told.
            raise ToolFailed(f"The tool {self.tool} failed. It said: {said}")
        return fenced(said, f"From the MCP server {server.name}")
