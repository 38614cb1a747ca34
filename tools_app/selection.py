"""Which tools an agent has, and what happens when it calls one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents.inputs import read_input
from agents.models import Agent, AgentVersion
from tools_app.effective import EffectivePolicy
from tools_app.layers import binding_of_session, layers_of_agent
from tools_app.policy import Layer, decide
from tools_app.policy_input import PolicyInput, columns_of, layer_of
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_among, tools_of_workspace


def load_agent_tools(agent: Agent | UUID | str) -> dict[str, Tool]:
    """Every tool that the agent could be given, whatever its policy says."""
    agent_id = agent.pk if isinstance(agent, Agent) else agent
    workspaces = Agent.objects.filter(pk=agent_id).values_list("workspace_id", flat=True)
    return tools_of_workspace(workspaces.first())


def filter_tools_by_policy(
    tools: Mapping[str, Tool], policy: Layer | Mapping[str, Any]
) -> dict[str, Tool]:
    """The tools that the policy, or an agent's policy of these words, does not deny."""
    if not isinstance(policy, Layer):
        policy = layer_of("agent", columns_of(read_input(PolicyInput, policy), "agent"))
    return {
        name: tool
        for name, tool in tools.items()
        if decide(name, [policy], tools=tools).decision != "deny"
    }


def effective_policy(
    agent_version: AgentVersion, session_id: UUID | None = None
) -> EffectivePolicy:
    """What binds a run of this session, or without one a new session of this version."""
    bound = binding_of_session(session_id) if session_id else None
    if bound:
        tools = tools_among(bound.custom_tools, bound.mcp_servers)
        return EffectivePolicy.of(bound.layers, tools, bound.grants)
    layers = layers_of_agent(agent_version)
    return EffectivePolicy.of(layers, tools_of_workspace(agent_version.workspace_id))
