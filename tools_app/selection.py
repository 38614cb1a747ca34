"""Which tools an agent has, and what happens when it calls one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tools_app.policy import Decision, Layer, decide
from tools_app.profiles import DEFAULT_PROFILE
from tools_app.registry import Tool, registry

if TYPE_CHECKING:
    from agents.models import AgentVersion

__all__ = [
    "Decision",
    "Layer",
    "decide_call",
    "effective_policy",
    "filter_tools_by_policy",
    "layers_of",
    "load_agent_tools",
]


def load_agent_tools(agent_id: UUID) -> dict[str, Tool]:
    """Every tool that the agent could be given, whatever its policy says."""
    return dict(registry)


def filter_tools_by_policy(tools: Mapping[str, Tool], policy: Layer) -> dict[str, Tool]:
    """The tools that the policy does not deny."""
    return {
        name: tool
        for name, tool in tools.items()
        if decide(name, [policy], tools=tools).decision != "deny"
    }


def layers_of(agent_version: AgentVersion, session_id: UUID) -> tuple[Layer, ...]:
    """What each party says, from the workspace down. Without stored rules: the default profile."""
    return (Layer(name="agent", profile=DEFAULT_PROFILE),)


def effective_policy(agent_version: AgentVersion, session_id: UUID) -> dict[str, Decision]:
    """What happens on a call of each tool, unless the call's own arguments change it."""
    tools = load_agent_tools(agent_version.agent_id)
    layers = layers_of(agent_version, session_id)
    return {name: decide(name, layers, tools=tools) for name in tools}


def decide_call(
    agent_version: AgentVersion, session_id: UUID, name: str, input: Mapping[str, Any]
) -> Decision:
    """What happens on this very call, argument patterns included."""
    tools = load_agent_tools(agent_version.agent_id)
    return decide(name, layers_of(agent_version, session_id), input, tools=tools)
