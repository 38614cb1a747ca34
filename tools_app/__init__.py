"""What agents may do: tools, policies, sandboxes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools_app.policies import load_tool_policy, save_tool_policy
    from tools_app.selection import filter_tools_by_policy, load_agent_tools

__all__ = ["filter_tools_by_policy", "load_agent_tools", "load_tool_policy", "save_tool_policy"]

_HOMES = {"load_tool_policy": "policies", "save_tool_policy": "policies"}


def __getattr__(name: str) -> object:
    """The public functions, imported when asked for: Django loads this package before any model."""
    if name in __all__:
        return getattr(import_module(f"tools_app.{_HOMES.get(name, 'selection')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
