"""Names and ids of tool calls in the narrow form that every vendor accepts.

Both functions are pure, so a call made last week and its result get the same name and id again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from agents.providers.base import ToolSpec

NAME_LENGTH = 64
ID_LENGTH = 40
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{NAME_LENGTH - 1}}}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """The tool's name as vendors allow it: `mcp:github:search` has colons, which they refuse."""
    if _NAME.fullmatch(name):
        return name
    # The digest keeps `a:b` and `a.b` apart.
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"t_{_FOREIGN.sub('_', name)}"[: NAME_LENGTH - 9] + f"_{digest}"


def wire_id(call_id: str) -> str:
    """The call's id, shortened when a vendor would find it too long."""
    if len(call_id) <= ID_LENGTH:
        return call_id
    return f"call_{sha256(call_id.encode()).hexdigest()[: ID_LENGTH - 5]}"


def names_by_wire_name(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Leads back from what the model answers to the names the product knows."""
    return {wire_name(tool.name): tool.name for tool in tools}
