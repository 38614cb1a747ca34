"""Which tools a workspace has: those of the product, and those it brought itself."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tools_app.custom import custom_tools, custom_tools_in
from tools_app.registry import Tool, registry


def tools_of_workspace(workspace_id: UUID | None) -> dict[str, Tool]:
    """Every tool that agents of the workspace could be given, by name."""
    return _with_ours(custom_tools(workspace_id) if workspace_id else {})


def tools_among(custom: str | None) -> dict[str, Tool]:
    """The same, for whoever has read the workspace's own tools already."""
    return _with_ours(custom_tools_in(custom) if custom else {})


def _with_ours(own: Mapping[str, Tool]) -> dict[str, Tool]:
    """The product's tools come last: a name that it takes later cannot be somebody's decoy."""
    return {**own, **registry}
