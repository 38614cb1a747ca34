"""Tells a change of a policy that lets a risky tool act without asking from any other."""

from __future__ import annotations

from collections.abc import Iterable

from tools_app.policy import STRICTNESS, Layer, Verdict, decide, judge
from tools_app.registry import Category, Tool
from tools_app.rules import names_match, parse_rule

#: What these do reaches beyond the session: to allow it without a question is the admins' to say.
GUARDED = frozenset({Category.EXEC, Category.MESSAGING, Category.MCP})


def loosened(before: Layer, after: Layer, tools: Iterable[Tool]) -> list[str]:
    """The guarded tools that could be called without a question after, and not before.

    Rules are compared by what they name and not by every call they may match, so a change that
    merely rewords a rule counts as well.
    """
    return [tool.name for tool in tools if _is_guarded(tool) and _loosens(before, after, tool)]


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
