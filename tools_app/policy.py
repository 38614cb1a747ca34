"""Decides whether a tool may be called: layers of rules in, one decision with its reason out.

Layers stand in the order workspace, agent, environment, session,
sub-agent. Each layer judges by itself and the strictest word stands (deny, then ask, then allow),
so no layer can widen what another has narrowed. Some tools ask by default; only an allow rule
of the agent's own layer lifts that, and only when no layer asks or denies.

In a layer:
- `denied` and `asked` hold rules; a matching one denies or asks.
- `profile` names a set of tools; others are denied.
- `allowed` without an argument pattern narrows the profile to what it names. A rule with a pattern,
  such as `exec(git status*)`, narrows no other tool: calls that match it are allowed, other calls
  of the same tool ask.
- `parent` holds the layers of the session that started this one: what asks or is denied there
  does so here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from tools_app.profiles import PROFILES
from tools_app.registry import Tool, registry
from tools_app.rules import calls_match, names_match, parse_rule

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
LayerName: TypeAlias = Literal["workspace", "agent", "environment", "session", "subagent"]

STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What one party says about tools. An empty layer says nothing."""

    name: LayerName
    profile: str | None = None
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    max_tool_calls_per_turn: int | None = None
    #: Of a sub-agent: everything that binds the session which started it.
    parent: tuple[Layer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What happens on a call, and the layer and rule that decided it."""

    decision: Verdict
    decided_by: str


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What one layer says by itself."""

    verdict: Verdict
    reason: str
    #: An allow rule named this tool or call, as against a profile that merely holds it.
    explicit: bool = False


def decide(
    tool_name: str,
    layers: Sequence[Layer],
    input: Mapping[str, Any] | None = None,
    *,
    tools: Mapping[str, Tool] | None = None,
) -> Decision:
    """The decision on a tool, or with `input` on one call of it. Without `tools`: the registry."""
    tool = (registry if tools is None else tools).get(tool_name)
    if tool is None:
        return Decision(decision="deny", decided_by="no tool has this name")
    return _decide(tool, layers, input)


def _decide(tool: Tool, layers: Sequence[Layer], input: Mapping[str, Any] | None) -> Decision:
    judged = [(layer, judge(tool, layer, input)) for layer in layers]
    strictest = max(
        judged, key=lambda pair: STRICTNESS[pair[1].verdict], default=(None, _NOTHING_SAID)
    )
    layer, judgement = strictest
    if judgement.verdict != "allow" and layer:
        return Decision(decision=judgement.verdict, decided_by=f"{layer.name}: {judgement.reason}")
    lifting = [own for layer, own in judged if layer.name == "agent" and own.explicit]
    if lifting:
        return Decision(decision="allow", decided_by=f"agent: {lifting[-1].reason}")
    if tool.permission == "always_ask":
        return Decision(decision="ask", decided_by=f"default: {tool.name} asks first")
    said = [(layer, own) for layer, own in judged if own is not _NOTHING_SAID]
    if said:
        layer, judgement = said[-1]
        return Decision(decision="allow", decided_by=f"{layer.name}: {judgement.reason}")
    return Decision(decision="allow", decided_by=f"default: {tool.name} is allowed")


def call_limit(layers: Iterable[Layer]) -> int | None:
    """The smallest number of tool calls per turn that any layer sets."""
    limits = [
        limit
        for layer in layers
        for limit in (layer.max_tool_calls_per_turn, call_limit(layer.parent))
        if limit is not None
    ]
    return min(limits, default=None)


def allowing(layer: Layer, tool: Tool, rule: str) -> Layer:
    """The layer with one more rule for calls of this tool. It takes the place of one that asks at
    every call: those that do not match it ask anyway, unless another rule allows some of them.
    """
    others = any(names_match(parse_rule(one), tool) for one in layer.allowed)
    asked = layer.asked if others else tuple(one for one in layer.asked if one != tool.name)
    return replace(layer, allowed=(*layer.allowed, rule), asked=asked)


def unknown_rules(layer: Layer, tools: Mapping[str, Tool]) -> list[str]:
    """Rules that match no known tool: most likely a slip of the pen, and worth saying at once."""
    return [
        rule
        for rule in (*layer.allowed, *layer.denied, *layer.asked)
        if not any(names_match(parse_rule(rule), tool) for tool in tools.values())
    ]


_NOTHING_SAID = Judgement(verdict="allow", reason="nothing said")


def judge(tool: Tool, layer: Layer, input: Mapping[str, Any] | None) -> Judgement:
    """What one layer alone says, the strictest of its rules first."""
    inherited = _decide(tool, layer.parent, input) if layer.parent else None
    own = _judge_own(tool, layer, input)
    if inherited and STRICTNESS[inherited.decision] > STRICTNESS[own.verdict]:
        return Judgement(verdict=inherited.decision, reason=f"parent, {inherited.decided_by}")
    return own


def _judge_own(tool: Tool, layer: Layer, input: Mapping[str, Any] | None) -> Judgement:
    for rule in layer.denied:
        if calls_match(parse_rule(rule), tool, input, strictly=False):
            return Judgement(verdict="deny", reason=f"denied {rule}")
    if layer.profile is not None and not _in_profile(tool, layer.profile):
        return Judgement(verdict="deny", reason=f"not in profile {layer.profile}")
    allowed = [rule for rule in layer.allowed if names_match(parse_rule(rule), tool)]
    narrows = any(parse_rule(rule).pattern is None for rule in layer.allowed)
    if narrows and not allowed:
        return Judgement(verdict="deny", reason="not among the allowed tools")
    for rule in layer.asked:
        if calls_match(parse_rule(rule), tool, input, strictly=False):
            return Judgement(verdict="ask", reason=f"asked {rule}")
    return _allowance(tool, layer, allowed, input)


def _allowance(
    tool: Tool, layer: Layer, allowed: Sequence[str], input: Mapping[str, Any] | None
) -> Judgement:
    for rule in allowed:
        if calls_match(parse_rule(rule), tool, input, strictly=True):
            return Judgement(verdict="allow", reason=f"allowed {rule}", explicit=True)
    if allowed:
        return Judgement(verdict="ask", reason=f"outside {', '.join(allowed)}")
    if layer.profile is not None:
        return Judgement(verdict="allow", reason=f"profile {layer.profile}")
    return _NOTHING_SAID


def _in_profile(tool: Tool, profile: str) -> bool:
    rules = PROFILES.get(profile, ())
    return any(names_match(parse_rule(rule), tool) for rule in rules)
