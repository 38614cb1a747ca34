"""What a person's yes covers beyond the one call: the rule that is remembered for it.

For a command it is exactly that command, for a page every page of its site, for a message the same
recipient; for any other tool, every call of it. A call is covered when its own rule is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tools_app.registry import Category, Tool

#: In words for a person who is about to say yes, by what a tool does.
COVERS = {
    Category.EXEC: "exactly this command",
    Category.WEB: "every page of this site",
    Category.MESSAGING: "the same recipient",
}
EVERY_CALL = "every call of this tool"
_GLOBS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def rule_of(tool: Tool, input: Mapping[str, Any]) -> str:
    """The rule under which this call and others like it fall."""
    pattern = _pattern(tool, input)
    return tool.name if pattern is None else f"{tool.name}({pattern})"


def lasting_rule_of(tool: Tool, input: Mapping[str, Any]) -> str:
    """The same as a policy writes it: globs in the arguments are taken by the letter.

    It always has a pattern, as a bare name in an allow-list would deny every other tool.
    """
    pattern = _pattern(tool, input)
    if pattern is None:
        return f"{tool.name}(*)"
    site = _site(pattern) if tool.category == Category.WEB else ""
    literal = f"{site.translate(_GLOBS)}/*" if site else pattern.translate(_GLOBS)
    return f"{tool.name}({literal})"


def covers(tool: Tool | None) -> str:
    """What an answer for the whole session would cover, in words."""
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
    """Scheme, host and port; nothing when it is no plain address of the web."""
    try:
        parts = urlsplit(address)
        named = parts.hostname and parts.scheme in {"http", "https"} and "@" not in parts.netloc
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}" if named else ""
