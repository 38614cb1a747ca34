"""Gathers what is needed to reach a server: its address, and its headers with their secrets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from config.faults import McpFailed
from tenants.masking import mask
from tenants.vault import fill
from tools_app.models import McpServer

if TYPE_CHECKING:
    from tools_app.mcp.client import Endpoint
    from tools_app.mcp.stdio import Place


def endpoint_of(server: McpServer, place: Place | None = None) -> Endpoint:
    """For one errand. Reads the vault, so the database is let go of after it and not before."""
    from tools_app.mcp.client import Endpoint

    host = urlsplit(server.url).hostname or ""
    headers = {
        name: _sendable(name, fill(server.workspace_id, value, host=host))
        for name, value in server.headers.items()
    }
    return Endpoint(
        name=server.name,
        url=server.url,
        headers=headers,
        command=server.command,
        place=place,
        clean=partial(mask, server.workspace_id),
        protocol=server.protocol,
    )


def _sendable(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise McpFailed(f"The header {name} cannot be sent: a secret in it is not plain text.")
    return value
