"""The language of policy rules: names, groups, globs and argument patterns.

`read`, `group:web`, `mcp:github:*`, `exec(git status*)`, `web_fetch(https://docs.*)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from tools_app.registry import Tool
from tools_app.subjects import means

GROUP = "group:"
_PATTERNED = re.compile(r"(?P<name>[^()]+)\((?P<pattern>.*)\)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Rule:
    name: str
    #: What the tool's subject must look like; None means any call.
    pattern: str | None = None


@lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule:
    """Read a rule. `exec(*)` is any call, but unlike `exec` it narrows no other tool."""
    found = _PATTERNED.fullmatch(text.strip())
    if found is None:
        return Rule(name=text.strip())
    return Rule(name=found["name"].strip(), pattern=found["pattern"])


def names_match(rule: Rule, tool: Tool) -> bool:
    """Whether the rule is about this tool at all."""
    if rule.name.startswith(GROUP):
        return tool.category == rule.name.removeprefix(GROUP)
    return fnmatchcase(tool.name, rule.name)


def calls_match(rule: Rule, tool: Tool, input: Mapping[str, Any] | None, *, strictly: bool) -> bool:
    """Whether the rule is about this call. Without input, a rule with a pattern matches nothing.

    A rule that allows is read strictly, one that asks or forbids is read widely; see `subjects`.
    """
    if not names_match(rule, tool):
        return False
    if rule.pattern in {None, "*"}:
        return True
    if input is None or rule.pattern is None:
        return False
    return means(tool, rule.pattern, str(input.get(tool.subject, "")), strictly=strictly)
