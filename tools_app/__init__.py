"""The tools of agents: their registry, policies and sandboxes, MCP servers, custom tools and skills."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools_app.policy.effective import filter_tools_by_policy, load_agent_tools
    from tools_app.policy.storage import load_tool_policy, save_tool_policy

__all__ = ["filter_tools_by_policy", "load_agent_tools", "load_tool_policy", "save_tool_policy"]

_HOMES = {"load_tool_policy": "policy.storage", "save_tool_policy": "policy.storage"}


def __getattr__(name: str) -> object:
    """Import the public functions on first use: Django loads this package before any model."""
    if name in __all__:
        return getattr(import_module(f"tools_app.{_HOMES.get(name, 'policy.effective')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
