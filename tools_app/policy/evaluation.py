"""Decides whether a tool may be called, and explains why.

The layers stand in the order workspace, agent, environment, session, subagent. Each layer judges
by itself and the strictest verdict wins (deny, then ask, then allow), so no layer can widen what
another has narrowed. Some tools ask by default; only a rule of the agent's layer that approves calls
lifts that, and only when no layer asks or denies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from tools_app.outflow import Exposure
from tools_app.policy import rules
from tools_app.policy.rules import PROFILES, STRICTNESS, Layer, PeerRight, Verdict, parse_rule
from tools_app.registry import Category, Tool, registry

#: What decides, in place of a layer, when a session has read text from outside.
TAINT = "taint"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What happens on a call, with the layer and the rule that decided it."""

    decision: Verdict
    decided_by: str
    #: Whether a rule of the agent's policy names this very call.
    named: bool = field(default=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict of one layer by itself."""

    verdict: Verdict
    reason: str
    #: Whether an allow rule names this tool or call; false if the profile merely contains it.
    explicit: bool = False
    #: Whether that rule names this tool with the calls it means, or the server of the tool.
    named: bool = False


def decide(
    tool_name: str,
    layers: Sequence[Layer],
    input: Mapping[str, Any] | None = None,
    *,
    tools: Mapping[str, Tool] | None = None,
) -> Decision:
    """Decide on a tool, or with `input` on one call of it, among `tools` or the built-in tools."""
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
        newest = lifting[-1]
        return Decision(decision="allow", decided_by=f"agent: {newest.reason}", named=newest.named)
    if tool.permission == "always_ask":
        return Decision(decision="ask", decided_by=f"default: {tool.name} asks first")
    said = [(layer, own) for layer, own in judged if own is not _NOTHING_SAID]
    if said:
        layer, judgement = said[-1]
        return Decision(decision="allow", decided_by=f"{layer.name}: {judgement.reason}")
    return Decision(decision="allow", decided_by=f"default: {tool.name} is allowed")


_NOTHING_SAID = Judgement(verdict="allow", reason="nothing said")


def judge(tool: Tool, layer: Layer, input: Mapping[str, Any] | None) -> Judgement:
    """Return the verdict of one layer alone, its strictest rules first."""
    inherited = _decide(tool, layer.parent, input) if layer.parent else None
    own = _judge_own(tool, layer, input)
    if inherited and STRICTNESS[inherited.decision] > STRICTNESS[own.verdict]:
        return Judgement(verdict=inherited.decision, reason=f"parent, {inherited.decided_by}")
    return own


def _judge_own(tool: Tool, layer: Layer, input: Mapping[str, Any] | None) -> Judgement:
    for rule in layer.denied:
        if rules.matches_call(rule, tool, input, strictly=False):
            return Judgement(verdict="deny", reason=f"denied {rule}")
    if layer.profile is not None and not _in_profile(tool, layer.profile):
        return Judgement(verdict="deny", reason=f"not in profile {layer.profile}")
    allowed = [rule for rule in layer.allowed if rules.matches_tool(rule, tool)]
    if layer.allowed and not allowed:
        return Judgement(verdict="deny", reason="not among the allowed tools")
    approval = _first_match(layer.approved, tool, input)
    for rule in layer.asked:
        if rules.matches_call(rule, tool, input, strictly=False) and not (
            approval and parse_rule(rule).pattern in (None, "*")
        ):
            return Judgement(verdict="ask", reason=f"asked {rule}")
    if approval:
        return _approval(approval, tool)
    return _allowance(tool, layer, allowed, input)


def _first_match(texts: Iterable[str], tool: Tool, input: Mapping[str, Any] | None) -> str:
    """Return the rule that matches this call, preferring one that names it; empty if none does."""
    matching = [rule for rule in texts if rules.matches_call(rule, tool, input, strictly=True)]
    naming = [rule for rule in matching if rules.names_call(rule, tool)]
    return next(iter(naming or matching), "")


def _approval(rule: str, tool: Tool) -> Judgement:
    named = rules.names_call(rule, tool)
    return Judgement(verdict="allow", reason=f"allowed {rule}", explicit=True, named=named)


def _allowance(
    tool: Tool, layer: Layer, allowed: Sequence[str], input: Mapping[str, Any] | None
) -> Judgement:
    exact = (rule for rule in allowed if parse_rule(rule).pattern is not None)
    if rule := _first_match(exact, tool, input):
        return _approval(rule, tool)
    if rule := _first_match(allowed, tool, input):
        return Judgement(verdict="allow", reason=f"allowed {rule}")
    if allowed:
        return Judgement(verdict="ask", reason=f"outside {', '.join(allowed)}")
    if layer.profile is not None:
        return Judgement(verdict="allow", reason=f"profile {layer.profile}")
    return _NOTHING_SAID


def _in_profile(tool: Tool, profile: str) -> bool:
    if any(rules.matches_tool(rule, tool) for rule in PROFILES.get(profile, ())):
        return True
    # The operator installed the plugin on purpose, as people add an MCP server on purpose.
    return profile in PROFILES and profile != "minimal" and tool.category not in set(Category)


@dataclass(frozen=True, kw_only=True)
class Link:
    """The verdict of one layer in an explanation."""

    layer: str
    decision: Verdict
    rule: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with the layer and rule that made it, and the verdict of every layer."""

    tool: str
    decision: Verdict
    decided_by: str
    layer: str
    rule: str
    chain: tuple[Link, ...]


def explain(
    name: str,
    layers: Sequence[Layer],
    input: Mapping[str, Any] | None = None,
    *,
    tools: Mapping[str, Tool],
) -> Explanation:
    """Explain why a tool, or with `input` one call of it, is allowed, asks or is denied."""
    decision = decide(name, layers, input, tools=tools)
    layer, named, rule = decision.decided_by.partition(": ")
    return Explanation(
        tool=name,
        decision=decision.decision,
        decided_by=decision.decided_by,
        layer=layer if named else "default",
        rule=rule if named else decision.decided_by,
        chain=_chain(tools[name], layers, input) if name in tools else (),
    )


def _chain(
    tool: Tool, layers: Sequence[Layer], input: Mapping[str, Any] | None
) -> tuple[Link, ...]:
    judged = [(layer.name, judge(tool, layer, input)) for layer in layers]
    links = [Link(layer=name, decision=said.verdict, rule=said.reason) for name, said in judged]
    if tool.permission == "always_ask":
        links.append(Link(layer="default", decision="ask", rule=f"{tool.name} asks first"))
    return tuple(links)


@lru_cache(maxsize=1_000)
def _decisions(layers: tuple[Layer, ...], tools: tuple[Tool, ...]) -> dict[str, Decision]:
    """Cache decisions: most runs share their layers with an earlier run."""
    named = {tool.name: tool for tool in tools}
    return {name: decide(name, layers, tools=named) for name in named}


class EffectivePolicy(dict[str, Decision]):
    """The decision on each tool. The arguments of a call can still change it; see `decide_call`."""

    def __init__(
        self,
        decisions: Mapping[str, Decision] | Iterable[tuple[str, Decision]] = (),
        *,
        layers: Sequence[Layer] = (),
        tools: Mapping[str, Tool] | None = None,
        grants: Iterable[str] = (),
    ) -> None:
        super().__init__(decisions)
        self.layers = tuple(layers)
        #: Rules that people allowed for this session. They answer an `ask`, and lift no denial.
        self.grants = frozenset(grants)
        #: What the session has read and may reach; None outside a session.
        self.exposure: Exposure | None = None
        #: Tools that no layer judges, because they only tell what the policy allows.
        self.unjudged: Mapping[str, Tool] = {}
        #: All tools that could be offered, whatever the decision.
        self.tools: Mapping[str, Tool] = registry if tools is None else tools

    @classmethod
    def of(
        cls, layers: Sequence[Layer], tools: Mapping[str, Tool], grants: Iterable[str] = ()
    ) -> EffectivePolicy:
        decisions = _decisions(tuple(layers), tuple(tools.values()))
        return cls(decisions, layers=layers, tools=tools, grants=grants)

    def extended(self, tools: Mapping[str, Tool]) -> EffectivePolicy:
        """Return this policy for a run with more tools. They replace none, and every layer judges them."""
        return EffectivePolicy.of(self.layers, {**tools, **self.tools}, self.grants)

    def narrowed(self, allowed: Sequence[str]) -> EffectivePolicy:
        """Return this policy for a run that wants only these tools; an empty list means none."""
        layer = Layer(name="run", allowed=tuple(allowed), denied=() if allowed else ("*",))
        return EffectivePolicy.of((*self.layers, layer), self.tools, self.grants)

    def add_unjudged(self, tools: Mapping[str, Tool]) -> None:
        """Add tools that every run may call."""
        self.unjudged = tools
        self.tools = {**self.tools, **tools}

    @property
    def max_tool_calls(self) -> int | None:
        """The smallest limit of calls per turn that any layer sets."""
        return rules.call_limit(self.layers)

    def peers(self, right: PeerRight) -> frozenset[UUID]:
        """Return the agents whose sessions may be listed, read or written to."""
        return rules.peer_ids(self.layers, right)

    def offered(self) -> dict[str, Tool]:
        """Return the tools that are not denied."""
        return {name: self.tools[name] for name, d in self.items() if d.decision != "deny"}

    def decide_call(self, name: str, input: Mapping[str, Any]) -> Decision:
        """Decide on one call: by its arguments, what the session has read, and its grants."""
        if name in self.unjudged:
            return Decision(decision="allow", decided_by=f"default: {name} is allowed")
        if self.layers:
            decided = decide(name, self.layers, input, tools=self.tools)
        else:
            unknown = Decision(decision="deny", decided_by="no tool has this name")
            decided = self.get(name) or unknown
        if decided.decision == "allow" and (reason := self._outflow(name, input, decided)):
            decided = Decision(decision="ask", decided_by=f"{TAINT}: {reason}")
        if decided.decision == "ask" and (rule := self._granted(name, input)):
            return Decision(decision="allow", decided_by=f"session: {rule}")
        return decided

    def _outflow(self, name: str, input: Mapping[str, Any], decided: Decision) -> str:
        """Say why an allowed call asks after all: it could send away what the session has read."""
        tool = self.tools.get(name)
        if self.exposure is None or tool is None or decided.named:
            return ""
        leaves = tool.leaves(input, self.exposure)
        # Its client may see what its own tools returned.
        but = tool.ownership if tool.ownership == "custom" else ""
        source = self.exposure.source(but) if leaves else ""
        if not source:
            return ""
        return f"this session has read text from outside ({source}), and this call would {leaves}"

    def _granted(self, name: str, input: Mapping[str, Any]) -> str:
        """Return the grant that covers this call, in words, or an empty string."""
        tool = self.tools.get(name)
        if not self.grants or tool is None:
            return ""
        rule = rules.grant_rule(tool, input)
        return f"a person allowed {rule} for this session" if rule in self.grants else ""

    def explain(self, name: str) -> Explanation:
        """Explain why the tool is allowed, asks or is denied."""
        return explain(name, self.layers, tools=self.tools)

    def simulate(self, name: str, input: Mapping[str, Any]) -> Explanation:
        """Explain what would happen on a call with these arguments."""
        told = explain(name, self.layers, input, tools=self.tools)
        decided = decide(name, self.layers, input, tools=self.tools)
        if decided.decision == "allow" and (reason := self._outflow(name, input, decided)):
            told = replace(
                told,
                decision="ask",
                decided_by=f"{TAINT}: {reason}",
                layer=TAINT,
                rule=reason,
                chain=(*told.chain, Link(layer=TAINT, decision="ask", rule=reason)),
            )
        if told.decision != "ask" or not (rule := self._granted(name, input)):
            return told
        return replace(
            told,
            decision="allow",
            decided_by=f"session: {rule}",
            layer="session",
            rule=rule,
            chain=(*told.chain, Link(layer="session", decision="allow", rule=rule)),
        )
