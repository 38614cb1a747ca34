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

from tools_app.registry import Category, Tool

GROUP = "group:"
_PATTERNED = re.compile(r"(?P<name>[^()]+)\((?P<pattern>.*)\)", re.DOTALL)
#: With these a shell does more than one thing, or something else than it seems.
_OPERATORS = re.compile(r"[;&|<>$`\n\r(){}\\]+")


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

    A rule that allows is read strictly: a command line that strings several commands together
    is not what somebody meant who allowed `git status*`. A rule that forbids is read widely: each
    of the strung commands may match.
    """
    if not names_match(rule, tool):
        return False
    if rule.pattern in {None, "*"}:
        return True
    if input is None or rule.pattern is None:
        return False
    subject = str(input.get(tool.subject, ""))
    if tool.category != Category.EXEC:
        return fnmatchcase(subject, rule.pattern)
    pieces = [piece.strip() for piece in _OPERATORS.split(subject)]
    if strictly:
        return len(pieces) == 1 and fnmatchcase(subject.strip(), rule.pattern)
    return any(fnmatchcase(piece, rule.pattern) for piece in (subject.strip(), *pieces))
