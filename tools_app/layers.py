"""Reads what binds a session, or an agent before it has one: all layers, in one query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args
from uuid import UUID

import psycopg
from django.db import connection

from agents.models import AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from tools_app.models import ToolPolicy
from tools_app.policy import Layer, LayerName
from tools_app.policy_input import FIELDS, layer_of
from tools_app.profiles import DEFAULT_PROFILE

#: From the ceiling down.
ORDER: tuple[LayerName, ...] = get_args(LayerName)
#: The session first, then whoever started it, and so on up. A parent is given at birth, so that
#: the chain has an end.
FAMILY = b"""
WITH RECURSIVE family AS (
  SELECT 0 AS depth, s.id, s.workspace_id, s.agent_id, s.agent_version_id, s.environment_id,
         s.parent_id
    FROM agent_sessions s WHERE s.id = %s
  UNION ALL
  SELECT f.depth + 1, s.id, s.workspace_id, s.agent_id, s.agent_version_id, s.environment_id,
         s.parent_id
    FROM family f JOIN agent_sessions s ON s.id = f.parent_id
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
            AND m.workspace_id = (SELECT workspace_id FROM family WHERE depth = 0)), (
         SELECT array_agg(DISTINCT a.rule) FROM approvals a
          WHERE a.session_id = (SELECT id FROM family WHERE depth = 0)
            AND a.status = 'allowed' AND a.scope = 'session')
  FROM family f
  JOIN agents_agentversion v ON v.id = f.agent_version_id
  LEFT JOIN agent_tool_policies p ON p.subject_id = ANY (ARRAY[
         f.id, f.agent_id, f.workspace_id,
         coalesce(f.environment_id, v.environment_id, (
           SELECT e.id FROM agents_environment e
            WHERE e.workspace_id = f.workspace_id AND e.name = %s))])
"""

Found = dict[LayerName, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The layers from the workspace down, the workspace's own tools as JSON, its MCP servers, and
    what people allowed for the whole session.

    A server stands as `id@revision`: what it offers can be large, and is kept by each process.
    """

    layers: tuple[Layer, ...]
    custom_tools: str | None
    mcp_servers: str | None
    grants: tuple[str, ...] = ()


def binding_of_session(session_id: UUID) -> Binding | None:
    """What binds the session's next run. On the way of every run, so one query for all of it."""
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
        return cursor.execute(FAMILY, [session_id, DEFAULT_NAME]).fetchall()


def layers_of_agent(version: AgentVersion) -> tuple[Layer, ...]:
    """What would bind a new session of this version."""
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
    """The layers that say something, in order. An agent says at least its profile."""
    layers = {name: layer_of(name, found[name]) for name in ORDER if name in found}
    layers.setdefault("agent", Layer(name="agent", profile=DEFAULT_PROFILE))
    if parent:
        own = layers.get("subagent", Layer(name="subagent"))
        layers["subagent"] = replace(own, parent=tuple(parent))
    return tuple(layers[name] for name in ORDER if name in layers)
