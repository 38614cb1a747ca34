"""MCP servers: added, changed, taken away, and what of the vault they use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.inputs import merged, read_input
from config.faults import Conflict, NotFound
from tenants.models import User
from tenants.vault import names_in
from tools_app.mcp.server_input import McpServerInput
from tools_app.models import McpServer

COLUMNS = tuple(McpServerInput.model_fields)
#: What decides how the server is reached: after a change of it nothing that was seen counts.
REACH = ("transport", "url", "headers", "command")


def add_server(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> McpServer:
    """Make a server known. The supervisor asks it soon; `refresh` asks it now."""
    given = read_input(McpServerInput, fields)
    server = McpServer(workspace_id=workspace_id, created_by=created_by)
    return _write(server, given)


@transaction.atomic
def change_server(
    server: McpServer, changes: Mapping[str, Any], *, replace: bool = False
) -> McpServer:
    """Change what is named, or everything. Runs that are under way keep what they began with."""
    locked = McpServer.objects.select_for_update(no_key=True).filter(pk=server.pk).first()
    if locked is None:
        raise NotFound
    current = {name: getattr(locked, name) for name in COLUMNS}
    given = read_input(McpServerInput, changes if replace else merged(current, changes))
    if any(getattr(given, name) != current[name] for name in REACH):
        # Another server may stand there: its tools are not those that were seen.
        locked.status, locked.error, locked.protocol = McpServer.Status.NEW, "", ""
        locked.tools, locked.left_out, locked.server_info = [], [], ""
        locked.refreshed_at, locked.failures = None, 0
    locked.due_at = timezone.now()
    locked.revision += 1
    return _write(locked, given)


def _write(server: McpServer, given: McpServerInput) -> McpServer:
    for name, value in given.model_dump(mode="json").items():
        setattr(server, name, value)
    try:
        with transaction.atomic():
            server.save()
    except IntegrityError:
        raise Conflict(f"An MCP server is named {given.name!r} already.") from None
    server.refresh_from_db()
    return server


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
