"""Which tools a workspace has: those of the product, and those it brought itself."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tools_app.custom import custom_tools, custom_tools_in
from tools_app.mcp.offered import mcp_tools, mcp_tools_of
from tools_app.registry import Tool, registry


def tools_of_workspace(workspace_id: UUID | None) -> dict[str, Tool]:
    """Every tool that agents of the workspace could be given, by name."""
    if not workspace_id:
        return _with_ours({})
    return _with_ours({**mcp_tools(workspace_id), **custom_tools(workspace_id)})


def tools_among(custom: str | None, servers: str | None = None) -> dict[str, Tool]:
    """The same, for whoever has read the workspace's own tools and servers already."""
    own = custom_tools_in(custom) if custom else {}
    theirs = mcp_tools_of(servers) if servers else {}
    return _with_ours({**theirs, **own})


def _with_ours(own: Mapping[str, Tool]) -> dict[str, Tool]:
    """The product's tools come last: a name that it takes later cannot be somebody's decoy."""
    return {**own, **registry}
