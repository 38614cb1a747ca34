"""The rule that a person's approval covers beyond the one call.

For a command it is exactly that command, for a page every page of its site, for a message the same
recipient, and for any other tool every call of it. A grant covers a call whose own rule is equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tools_app.registry import Category, Tool

#: What an approval covers, as it is shown to the person who decides, by the category of the tool.
COVERS = {
    Category.EXEC: "exactly this command",
    Category.WEB: "every page of this site",
    Category.MESSAGING: "the same recipient",
}
EVERY_CALL = "every call of this tool"
_GLOBS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def grant_rule(tool: Tool, input: Mapping[str, Any]) -> str:
    """Return the rule that this call and others like it fall under."""
    pattern = _pattern(tool, input)
    return tool.name if pattern is None else f"{tool.name}({pattern})"


def permanent_rule(tool: Tool, input: Mapping[str, Any]) -> str:
    """Return the same rule as a policy writes it, with the globs in its arguments escaped.

    It always has a pattern: a bare name in an allow list would deny every other tool.
    """
    pattern = _pattern(tool, input)
    if pattern is None:
        return f"{tool.name}(*)"
    site = _site(pattern) if tool.category == Category.WEB else ""
    literal = f"{site.translate(_GLOBS)}/*" if site else pattern.translate(_GLOBS)
    return f"{tool.name}({literal})"


def covers(tool: Tool | None) -> str:
    """Describe what an approval for the whole session would cover."""
    if tool is None or (tool.category == Category.WEB and tool.subject != "url"):
        return EVERY_CALL
    return COVERS.get(tool.category, EVERY_CALL)


def _pattern(tool: Tool, input: Mapping[str, Any]) -> str | None:
    subject = str(input.get(tool.subject, "")).strip()
    match tool.category:
        case Category.EXEC | Category.MESSAGING:
            return subject
        case Category.WEB if "://" in subject:
            return f"{_site(subject)}/*" if _site(subject) else subject
        case _:
            return None


def _site(address: str) -> str:
    """Return scheme, host and port, or an empty string for what is not a plain web address."""
    try:
        parts = urlsplit(address)
        named = parts.hostname and parts.scheme in {"http", "https"} and "@" not in parts.netloc
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}" if named else ""
