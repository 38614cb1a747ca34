"""Tells a change of a policy that lets a risky tool act without asking from any other."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from tools_app.policy import STRICTNESS, Layer, Verdict, decide, judge
from tools_app.policy_input import PASSING
from tools_app.registry import Arguments, Category, Tool
from tools_app.rules import GROUP, names_match, parse_rule

#: What these do reaches beyond the session: to allow it without a question is the admins' to say.
GUARDED = frozenset({Category.EXEC, Category.MESSAGING, Category.MCP})


def loosened(before: Layer, after: Layer, tools: Iterable[Tool]) -> list[str]:
    """The guarded tools that could be called without a question after, and not before.

    Rules are compared by what they name and not by every call they may match, so a change that
    merely rewords a rule counts as well. So does one about tools of a server that is yet to come.
    """
    known = list(tools)
    unseen = _to_come(before, after, {tool.name for tool in known})
    guarded = (tool for tool in (*known, *unseen) if _is_guarded(tool))
    return [tool.name for tool in guarded if _loosens(before, after, tool)]


def _to_come(before: Layer, after: Layer, known: Container[str]) -> Iterator[Tool]:
    """For each rule that MCP tools may come under, one that would, called as the rule calls them."""
    lists = (before.allowed, before.denied, before.asked, after.allowed, after.denied, after.asked)
    for name in dict.fromkeys(parse_rule(rule).name for rules in lists for rule in rules):
        literal = re.split(r"[*?\[]", name, maxsplit=1)[0]
        if name == f"{GROUP}{Category.MCP}":
            yield _unseen(f"{PASSING}*")
        elif literal.startswith(PASSING) or (literal != name and PASSING.startswith(literal)):
            sample = re.sub(r"\[(!?)(.[^\]]*)\]", _one_of, name)
            if sample not in known:
                yield _unseen(sample)


def _one_of(choice: re.Match[str]) -> str:
    """A sign that `[abc]` or `[!abc]` stands for."""
    excluded, signs = bool(choice[1]), choice[2]
    return next((one for one in "*0ax~" if one not in signs), "") if excluded else signs[0]


def _unseen(name: str) -> Tool:
    return Tool(
        name=name,
        title=name,
        description="",
        arguments=Arguments,
        category=Category.MCP,
        permission="always_ask",
        seconds=0,
        handler=lambda arguments, context: None,
    )


def _is_guarded(tool: Tool) -> bool:
    return tool.category in GUARDED or tool.permission == "always_ask"


def _loosens(before: Layer, after: Layer, tool: Tool) -> bool:
    was, becomes = _verdict(before, tool), _verdict(after, tool)
    lifting = _about(after.allowed, tool)
    free = becomes == "allow" or bool(lifting) or after.name != "agent"
    if STRICTNESS[becomes] < STRICTNESS[was] and free:
        return True
    if becomes == "deny":
        return False
    restricting = _about((*before.denied, *before.asked), tool)
    dropped = restricting - _about((*after.denied, *after.asked), tool)
    if after.name == "agent":
        # Only here an allow rule lifts the question; without one the tool goes on asking.
        return bool(lifting - _about(before.allowed, tool) or (dropped and lifting))
    outside = {rule for rule in _about(before.allowed, tool) if parse_rule(rule).pattern}
    return bool(dropped or (outside and lifting != _about(before.allowed, tool)))


def _verdict(layer: Layer, tool: Tool) -> Verdict:
    """What follows if no other layer says anything. Only the agent's own word lifts a question."""
    if layer.name == "agent":
        return decide(tool.name, [layer], tools={tool.name: tool}).decision
    return judge(tool, layer, None).verdict


def _about(rules: Iterable[str], tool: Tool) -> set[str]:
    return {rule for rule in rules if names_match(parse_rule(rule), tool)}
