"""Says what would happen if a tool were called, and why, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools_app.policy import Layer, Verdict, decide, judge
from tools_app.registry import Tool


@dataclass(frozen=True, kw_only=True)
class Link:
    """What one layer says by itself."""

    layer: str
    decision: Verdict
    rule: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with the layer and rule that made it, and what every layer said."""

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
    """Why a tool, or with `input` one call of it, is allowed, asks or is denied."""
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
