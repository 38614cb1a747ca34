"""Which tools a workspace has: those of the product, and those it brought itself."""

from __future__ import annotations

from uuid import UUID

from tools_app.registry import Tool, registry


def tools_of_workspace(workspace_id: UUID | None) -> dict[str, Tool]:
    """Every tool that agents of the workspace could be given, by name."""
    return dict(registry)
