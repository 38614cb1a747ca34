"""Loads the effective policy of a session, or of an agent that has no session yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from agents.models import Agent, AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from core.db import prepared_rows
from core.validation import read_input
from tools_app.models import ToolPolicy
from tools_app.policy.evaluation import EffectivePolicy, decide
from tools_app.policy.rules import DEFAULT_PROFILE, ORDER, Layer, LayerName
from tools_app.policy.storage import FIELDS, PolicyInput, policy_columns, to_layer
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_binding, tools_of_workspace

BINDING = "SELECT session_binding(%s, %s)::text"

Found = dict[LayerName, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Binding:
    """What binds the next run of a session: `session_binding` in `sql/binding.sql`, parsed."""

    #: From the workspace down.
    layers: tuple[Layer, ...]
    #: A JSON list.
    custom_tools: str | None = None
    mcp_servers: str | None = None
    grants: tuple[str, ...] = ()
    #: The name and description of each skill.
    skills: tuple[tuple[str, str], ...] = ()

    def policy(self) -> EffectivePolicy:
        """Return the policy of the session's next run."""
        tools = tools_of_binding(self.custom_tools, self.mcp_servers)
        return EffectivePolicy.of(self.layers, tools, self.grants)


def load_session_binding(session_id: UUID) -> Binding | None:
    """Load what binds the session's next run."""
    [(packed,)] = prepared_rows(BINDING, [session_id, DEFAULT_NAME])
    return read_binding(packed) if packed else None


@lru_cache(maxsize=1_000)
def read_binding(packed: str) -> Binding:
    """Parse what `session_binding` returned. Most runs are bound like an earlier one."""
    found = orjson.loads(packed)
    family: defaultdict[int, Found] = defaultdict(dict)
    for depth, layer, *fields in found["layers"]:
        family[depth].update({layer: dict(zip(FIELDS, fields, strict=True))} if layer else {})
    chain: tuple[Layer, ...] = ()
    # The session stands at depth 0, the session that started it at depth 1, and so on.
    for depth in sorted(family, reverse=True):
        chain = _chain(family[depth], parent=chain)
    return Binding(
        layers=chain,
        custom_tools=found["custom_tools"],
        mcp_servers=found["mcp_servers"],
        grants=tuple(found["grants"] or ()),
        skills=tuple((name, text) for name, text in found["skills"] or ()),
    )


def load_agent_layers(version: AgentVersion) -> tuple[Layer, ...]:
    """Load what would bind a new session of this version."""
    environment_id = version.environment_id or (
        Environment.objects.for_workspace(version.workspace_id)
        .filter(name=DEFAULT_NAME)
        .values_list("pk", flat=True)
        .first()
    )
    subjects = [version.workspace_id, version.agent_id, environment_id]
    rows = ToolPolicy.objects.filter(subject_id__in=[one for one in subjects if one])
    return _chain({row.layer: row for row in rows})  # type: ignore[misc]


def _chain(found: Mapping[LayerName, Any], parent: Iterable[Layer] = ()) -> tuple[Layer, ...]:
    """Return the stored layers in order. An agent has at least a profile."""
    layers = {name: to_layer(name, found[name]) for name in ORDER if name in found}
    layers.setdefault("agent", Layer(name="agent", profile=DEFAULT_PROFILE))
    if parent:
        own = layers.get("subagent", Layer(name="subagent"))
        layers["subagent"] = replace(own, parent=tuple(parent))
    return tuple(layers[name] for name in ORDER if name in layers)


def load_agent_tools(agent: Agent | UUID | str) -> dict[str, Tool]:
    """Return every tool that the agent could be given, whatever its policy says."""
    agent_id = agent.pk if isinstance(agent, Agent) else agent
    workspaces = Agent.objects.filter(pk=agent_id).values_list("workspace_id", flat=True)
    return tools_of_workspace(workspaces.first())


def filter_tools_by_policy(
    tools: Mapping[str, Tool], policy: Layer | Mapping[str, Any]
) -> dict[str, Tool]:
    """Return the tools that a policy does not deny.

    A mapping is read as the policy of an agent.
    """
    if not isinstance(policy, Layer):
        policy = to_layer("agent", policy_columns(read_input(PolicyInput, policy), "agent"))
    return {
        name: tool
        for name, tool in tools.items()
        if decide(name, [policy], tools=tools).decision != "deny"
    }


def effective_policy(
    agent_version: AgentVersion, session_id: UUID | None = None
) -> EffectivePolicy:
    """Return the policy of the session's next run, or without a session that of a new one."""
    bound = load_session_binding(session_id) if session_id else None
    if bound:
        return bound.policy()
    layers = load_agent_layers(agent_version)
    return EffectivePolicy.of(layers, tools_of_workspace(agent_version.workspace_id))
