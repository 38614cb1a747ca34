"""Loads the effective policy of a session, or of an agent that has no session yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection

from agents.models import Agent, AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from core.validation import read_input
from tools_app.models import ToolPolicy
from tools_app.policy.evaluation import EffectivePolicy, decide
from tools_app.policy.rules import DEFAULT_PROFILE, ORDER, Layer, LayerName
from tools_app.policy.storage import FIELDS, PolicyInput, policy_columns, to_layer
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_binding, tools_of_workspace

#: The session first, then the session that started it, and so on.
FAMILY = b"""
WITH family AS MATERIALIZED (
  SELECT f.depth, f.id, f.workspace_id, f.agent_id,
         coalesce(f.environment_id, environment_of_version(f.agent_version_id, %s)) AS environment_id
    FROM session_family(%s) f
)
SELECT f.depth, p.layer, p.profile, p.allowed_tools, p.denied_tools, p.ask_tools,
       p.max_tool_calls_per_turn, (
         SELECT jsonb_agg(jsonb_build_object(
                  'name', c.name, 'description', c.description, 'permission', c.permission,
                  'timeout_seconds', c.timeout_seconds, 'input_schema', c.input_schema))::text
           FROM agent_custom_tools c
          WHERE c.workspace_id = (SELECT workspace_id FROM family WHERE depth = 0)), (
         SELECT string_agg(m.id || '@' || m.revision, ',' ORDER BY m.id)
           FROM mcp_servers m
          WHERE m.enabled
            AND m.workspace_id = (SELECT workspace_id FROM family WHERE depth = 0)),
       (SELECT session_grants(id) FROM family WHERE depth = 0)
  FROM family f
  LEFT JOIN agent_tool_policies p
    ON p.subject_id = ANY (ARRAY[f.id, f.agent_id, f.workspace_id, f.environment_id])
"""

Found = dict[LayerName, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The layers from the workspace down, the custom tools as JSON, the MCP servers, and the grants.

    A server is given as `id@revision`: its tools can be large, and each process caches them.
    """

    layers: tuple[Layer, ...]
    custom_tools: str | None
    mcp_servers: str | None
    grants: tuple[str, ...] = ()


def load_session_binding(session_id: UUID) -> Binding | None:
    """Load what binds the session's next run. Every run does this, so it takes one query."""
    family: defaultdict[int, Found] = defaultdict(dict)
    found = _family(session_id)
    for depth, layer, *words, _, _, _ in found:
        family[depth].update({layer: dict(zip(FIELDS, words, strict=True))} if layer else {})
    chain: tuple[Layer, ...] = ()
    for depth in sorted(family, reverse=True):
        chain = _chain(family[depth], parent=chain)
    if not found:
        return None
    *_, custom_tools, mcp_servers, grants = found[0]
    return Binding(
        layers=chain,
        custom_tools=custom_tools,
        mcp_servers=mcp_servers,
        grants=tuple(grants or ()),
    )


def _family(session_id: UUID) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    # The server binds the parameters, so that the statement is planned once per connection:
    # planning it costs twice as much as running it.
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        return cursor.execute(FAMILY, [DEFAULT_NAME, session_id]).fetchall()


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
        tools = tools_of_binding(bound.custom_tools, bound.mcp_servers)
        return EffectivePolicy.of(bound.layers, tools, bound.grants)
    layers = load_agent_layers(agent_version)
    return EffectivePolicy.of(layers, tools_of_workspace(agent_version.workspace_id))
