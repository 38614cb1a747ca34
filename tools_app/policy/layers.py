"""The layers of a policy: the rules of the workspace, agent, environment, session and subagent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from tools_app.policy.rules import parse_rule, rule_matches_tool
from tools_app.registry import Tool

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
LayerName: TypeAlias = Literal["workspace", "agent", "environment", "session", "subagent"]
#: From the workspace ceiling down.
ORDER: tuple[LayerName, ...] = get_args(LayerName)
STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The rules of one layer. A layer without rules has no effect.

    - `denied` and `asked`: a matching rule denies the call, or asks a person first.
    - `profile`: a set of tools; all others are denied.
    - `allowed`: a rule without a pattern narrows the layer to the tools that such rules name. A
      rule with a pattern, such as `exec(git status*)`, narrows no other tool: calls that match it
      are allowed, other calls of the same tool ask.
    """

    name: LayerName
    profile: str | None = None
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    max_tool_calls_per_turn: int | None = None
    #: For a subagent, the layers of the session that started it: what is denied or asks there,
    #: is denied or asks here.
    parent: tuple[Layer, ...] = ()


def call_limit(layers: Iterable[Layer]) -> int | None:
    """Return the smallest number of tool calls per turn that any layer sets."""
    limits = [
        limit
        for layer in layers
        for limit in (layer.max_tool_calls_per_turn, call_limit(layer.parent))
        if limit is not None
    ]
    return min(limits, default=None)


def with_allow_rule(layer: Layer, tool: Tool, rule: str) -> Layer:
    """Return the layer with one more rule that allows calls of this tool.

    It replaces a rule that asks at every call of the tool: calls that the new rule does not match
    ask anyway, unless another rule allows some of them.
    """
    others = any(rule_matches_tool(parse_rule(one), tool) for one in layer.allowed)
    asked = layer.asked if others else tuple(one for one in layer.asked if one != tool.name)
    return replace(layer, allowed=(*layer.allowed, rule), asked=asked)


def unknown_rules(layer: Layer, tools: Mapping[str, Tool]) -> list[str]:
    """Return the rules that match no known tool: most likely typing errors."""
    return [
        rule
        for rule in (*layer.allowed, *layer.denied, *layer.asked)
        if not any(rule_matches_tool(parse_rule(rule), tool) for tool in tools.values())
    ]
