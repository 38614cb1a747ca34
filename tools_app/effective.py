"""The policy that binds one run: a decision for every tool, and the layers for single calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tools_app.explanation import Explanation, Link, explain
from tools_app.grants import rule_of
from tools_app.policy import Decision, Layer, call_limit, decide
from tools_app.registry import Tool, registry


@lru_cache(maxsize=1_000)
def _decisions(layers: tuple[Layer, ...], tools: tuple[Tool, ...]) -> dict[str, Decision]:
    """Most runs are bound by the same layers as another one before."""
    named = {tool.name: tool for tool in tools}
    return {name: decide(name, layers, tools=named) for name in named}


class EffectivePolicy(dict[str, Decision]):
    """What happens on a call of each tool, unless the call's own arguments change it."""

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
        #: Rules that people allowed for this session. They answer a question, and nothing else.
        self.grants = frozenset(grants)
        #: Everything that could be offered, whatever is decided about it.
        self.tools: Mapping[str, Tool] = registry if tools is None else tools

    @classmethod
    def of(
        cls, layers: Sequence[Layer], tools: Mapping[str, Tool], grants: Iterable[str] = ()
    ) -> EffectivePolicy:
        decisions = _decisions(tuple(layers), tuple(tools.values()))
        return cls(decisions, layers=layers, tools=tools, grants=grants)

    @property
    def max_tool_calls(self) -> int | None:
        """The smallest bound of calls per turn that any layer sets."""
        return call_limit(self.layers)

    def offered(self) -> dict[str, Tool]:
        """The tools that are not denied."""
        return {name: self.tools[name] for name, d in self.items() if d.decision != "deny"}

    def decide_call(self, name: str, input: Mapping[str, Any]) -> Decision:
        """What happens on this very call, argument patterns included."""
        if self.layers:
            decided = decide(name, self.layers, input, tools=self.tools)
        else:
            unknown = Decision(decision="deny", decided_by="no tool has this name")
            decided = self.get(name) or unknown
        if decided.decision == "ask" and (rule := self._granted(name, input)):
            return Decision(decision="allow", decided_by=f"session: {rule}")
        return decided

    def _granted(self, name: str, input: Mapping[str, Any]) -> str:
        """Why nobody has to be asked again, if so."""
        tool = self.tools.get(name)
        if not self.grants or tool is None:
            return ""
        rule = rule_of(tool, input)
        return f"a person allowed {rule} for this session" if rule in self.grants else ""

    def explain(self, name: str) -> Explanation:
        """Why the tool is allowed, asks or is denied."""
        return explain(name, self.layers, tools=self.tools)

    def simulate(self, name: str, input: Mapping[str, Any]) -> Explanation:
        """What would happen on a call with these arguments, and why."""
        told = explain(name, self.layers, input, tools=self.tools)
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
