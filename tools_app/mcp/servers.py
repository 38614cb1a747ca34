"""MCP servers: added, changed, taken away, and what of the vault they use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.inputs import read_input
from agents.named_rows import hold, read_change, write
from config.faults import NotFound
from tenants.models import User
from tenants.vault import names_in
from tools_app.mcp.server_input import McpServerInput
from tools_app.models import McpServer

WHAT = "An MCP server"
#: What decides how the server is reached: after a change of it nothing that was seen counts.
REACH = ("transport", "url", "headers", "command")


def add_server(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> McpServer:
    """Make a server known. The supervisor asks it soon; `refresh` asks it now."""
    server = McpServer(workspace_id=workspace_id, created_by=created_by)
    return write(server, read_input(McpServerInput, fields), what=WHAT)


@transaction.atomic
def change_server(
    server: McpServer, changes: Mapping[str, Any], *, replace: bool = False
) -> McpServer:
    """Change what is named, or everything. Runs that are under way keep what they began with."""
    held = hold(server)
    given = read_change(McpServerInput, held, changes, replace=replace)
    if any(getattr(given, name) != getattr(held, name) for name in REACH):
        # Another server may stand there: its tools are not those that were seen.
        held.status, held.error, held.protocol = McpServer.Status.NEW, "", ""
        held.tools, held.left_out, held.server_info = [], [], ""
        held.refreshed_at, held.failures = None, 0
    held.due_at = timezone.now()
    held.revision += 1
    return write(held, given, what=WHAT)


def find_server(workspace_id: UUID, server_id: UUID) -> McpServer:
    """The workspace's server of this id, or a fault that says nothing about others."""
    server = McpServer.objects.for_workspace(workspace_id).filter(pk=server_id).first()
    if server is None:
        raise NotFound
    return server


def secrets_used(workspace_id: UUID) -> dict[str, list[str]]:
    """Which servers name each secret, for the page of the vault."""
    used: defaultdict[str, list[str]] = defaultdict(list)
    rows = McpServer.objects.for_workspace(workspace_id).values_list("name", "headers")
    for name, headers in rows:
        for secret in names_in(" ".join(headers.values())):
            used[secret].append(f"MCP server {name}")
    return dict(used)
