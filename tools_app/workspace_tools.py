"""Which tools a workspace has: those of the product, and those it brought itself."""

from __future__ import annotations

from uuid import UUID

from tools_app.custom import custom_tools
from tools_app.registry import Tool, registry


def tools_of_workspace(workspace_id: UUID | None) -> dict[str, Tool]:
    """Every tool that agents of the workspace could be given, by name."""
    own = custom_tools(workspace_id) if workspace_id else {}
    # The product's own come last: a name that it takes later cannot be somebody's decoy.
    return {**own, **registry}
