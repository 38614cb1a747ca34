"""What agents may do: tools, policies, sandboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools_app.selection import filter_tools_by_policy, load_agent_tools

__all__ = ["filter_tools_by_policy", "load_agent_tools"]


def __getattr__(name: str) -> object:
    """The public functions, imported when asked for: Django loads this package before any model."""
    if name in __all__:
        from tools_app import selection

        return getattr(selection, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
