"""Tells which outputs of tools are untrusted, and whether a session has seen untrusted text.

`tools_app/taint.py` fences such text. What an agent stores after its session has seen untrusted text
is stored as untrusted, and what could carry data out of such a session asks first
(`tools_app/outflow.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

import orjson

from agents.environments import environment_or_default
from agents.models import Environment
from sessions_app.log.sql import row, rows
from sessions_app.models import Session, SessionEvent
from sessions_app.tool_labels import main_argument
from tools_app.outflow import Exposure
from tools_app.registry import registry

EventType = SessionEvent.Type
SOURCE_LENGTH = 60

#: Tools that return text from the web.
WEB_TOOLS = frozenset({"web_fetch", "web_search"})
#: Tools that return text from other sessions, which models wrote, perhaps from untrusted text.
SESSION_TOOLS = frozenset({"sessions_history", "sessions_list"})
#: Tools whose result is the answer of another session, once there is one.
DELEGATING_TOOLS = frozenset({"sessions_spawn", "sessions_send"})
#: How the memory tools mark a document of untrusted origin.
UNTRUSTED_MEMORY = ("untrusted: information", "trust: untrusted")
#: Calls of these tools taint their session. Files and the output of commands may come from anywhere,
#: and so may what another session wrote. Tools of MCP servers and of clients taint as well, and so do
#: those of plugins, unless they say that their results can be trusted.
TAINTING_TOOLS = [
    *("web_fetch", "web_search", "read", "list_directory", "exec"),
    *("sessions_history", "sessions_list"),
]
MEMORY_TOOLS = ["memory_search", "memory_get"]
#: States of calls whose tool may have returned something.
ANSWERED = ["completed", "error", "unknown"]
TOOL_USES = (EventType.AGENT_TOOL_USE, EventType.AGENT_CUSTOM_TOOL_USE)
#: Walks from a session to every session whose text may have reached it: sub-agents that delivered,
#: the sessions above it, senders of messages, and the sessions behind a workflow that wrote to it.
TAINT_SOURCE = """
WITH RECURSIVE heard (id) AS (
  SELECT %s::uuid
  UNION SELECT o.id FROM heard h CROSS JOIN LATERAL (
    SELECT w.child_session_id AS id FROM subagent_spawns w
     WHERE w.parent_session_id = h.id AND w.delivered_at IS NOT NULL
    UNION ALL SELECT unnest(s.ancestors) FROM agent_sessions s WHERE s.id = h.id
    UNION ALL SELECT (m.payload ->> 'from_session')::uuid FROM session_messages m
     WHERE m.session_id = h.id AND m.type = 'user.message'
       AND m.payload ->> 'from_session' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
    UNION ALL SELECT i::uuid FROM session_messages m, jsonb_array_elements_text(CASE
           jsonb_typeof(m.payload -> 'from_sessions') WHEN 'array' THEN m.payload -> 'from_sessions'
           ELSE '[]' END) i
     WHERE m.session_id = h.id AND m.type = 'user.message'
       AND i ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') o)
SELECT t.name, t.input FROM tool_executions t
  WHERE t.session_id IN (SELECT id FROM heard) AND t.state = ANY(%s) AND t.ownership <> %s
    AND (t.ownership IN ('mcp', 'custom') OR t.name = ANY(%s)
         OR t.name = ANY(%s) AND (strpos(t.output::text, %s) > 0 OR strpos(t.output::text, %s) > 0))
UNION ALL SELECT '', NULL WHERE EXISTS (
  SELECT 1 FROM agent_sessions s WHERE s.id IN (SELECT id FROM heard) AND s.saw_outside)
LIMIT 1
"""
#: What marks a session without a call, in words.
UNKNOWN_SOURCE = "untrusted memory, imported events or the descriptions of an MCP server"
#: Whether a person wrote this host into a message that a run of this session took. Messages of agents,
#: schedules and workflows do not count, nor do those that came with an import or a fork.
IS_NAMED = """
SELECT EXISTS (SELECT 1 FROM session_messages m
   JOIN agent_run_queue q ON q.id = m.processed_run_id AND q.session_id = m.session_id
 WHERE m.session_id = %s AND m.type = 'user.message' AND m.created_by_id IS NOT NULL
   AND NOT m.payload ?| '{from_session,from_sessions,schedule_id}'
   AND lower(m.payload ->> 'text') ~ %s)
"""


def is_untrusted_output(name: str, ownership: str, output: str, answered: bool = False) -> bool:
    """Return whether a tool's output was written by an unknown author or by another agent.

    `answered` says that the output holds the answer of another session.
    """
    if ownership == "mcp" or name.startswith("mcp:") or name in WEB_TOOLS:
        return True
    if name in registry and registry[name].untrusted:
        return True
    if name in SESSION_TOOLS or (name in DELEGATING_TOOLS and answered):
        return True
    return name.startswith("memory_") and any(mark in output for mark in UNTRUSTED_MEMORY)


def is_tainted(session_id: UUID) -> bool:
    """Return whether a session has seen untrusted text, directly or through another session."""
    return bool(taint_source(session_id))


def taint_source(session_id: UUID, but: str = "") -> str:
    """Say which untrusted text a session has seen, directly or through another session.

    Return an empty string if it has seen none. Tools of the ownership `but` do not count.
    """
    found = rows(
        TAINT_SOURCE,
        [session_id, ANSWERED, but, _tainting_tools(), MEMORY_TOOLS, *UNTRUSTED_MEMORY],
    )
    for name, input in found:
        subject = main_argument(name, orjson.loads(input) if input else {})
        return f"{name} {subject}".strip()[:SOURCE_LENGTH] if name else UNKNOWN_SOURCE
    return ""


def _tainting_tools() -> list[str]:
    return [*TAINTING_TOOLS, *(tool.name for tool in registry.values() if tool.untrusted)]


class Place(Protocol):
    """What says where a session stands: the session itself, or a turn of it."""

    workspace_id: Any
    environment_id: Any
    ancestors: Any


def exposure_of(session_id: UUID, place: Place, peers: frozenset[UUID] = frozenset()) -> Exposure:
    """Return what the policy may ask about a session before a call that could let data out.

    `peers` are the agents that its agent may write to.
    """
    return Exposure(
        source=lambda but: taint_source(session_id, but),
        is_named=lambda host: _is_named(session_id, host),
        is_family=lambda other: _is_family(session_id, place.ancestors, other),
        is_peer=lambda other: _is_peer(peers, other),
        has_network=lambda: _has_network(place),
    )


def _has_network(place: Place) -> bool:
    environment = environment_or_default(place.workspace_id, place.environment_id)
    return environment.network != Environment.Network.NONE


def _is_named(session_id: UUID, host: str) -> bool:
    """Return whether a person wrote this host, or `www.` and this host, into the conversation."""
    bare = re.escape(host.lower().rstrip(".").removeprefix("www."))
    (named,) = row(
        IS_NAMED, [session_id, rf"(^|[^a-z0-9._-])(www\.)?{bare}($|[^a-z0-9._-]|\.(\s|$))"]
    )
    return bool(named)


def _is_family(session_id: UUID, ancestors: Sequence[UUID], other: str) -> bool:
    try:
        wanted = UUID(other)
    except ValueError:
        return False
    below = Session.objects.filter(pk=wanted, ancestors__contains=[session_id])
    return wanted in ancestors or below.exists()


def _is_peer(peers: frozenset[UUID], other: str) -> bool:
    try:
        wanted = UUID(other)
    except ValueError:
        return False
    return bool(peers) and Session.objects.filter(pk=wanted, agent_id__in=peers).exists()


def mark_tainted(session_id: UUID) -> None:
    """Record that a session saw untrusted text without a call: recalled memory, an import, or the
    descriptions of an MCP server's tools.
    """
    Session.objects.filter(pk=session_id, saw_outside=False).update(saw_outside=True)


def events_are_tainted(events: Sequence[dict[str, Any]]) -> bool:
    """Return whether exported events, which have no recorded calls here, hold untrusted text."""
    calls = {e["payload"]["tool_use_id"]: e["payload"] for e in events if e["type"] in TOOL_USES}
    return any(
        event["type"] == EventType.CHILD_IDLE
        or (
            event["type"] == EventType.AGENT_TOOL_RESULT
            and _is_tainting(event["payload"], calls.get(event["payload"]["tool_use_id"], {}))
        )
        for event in events
    )


def _is_tainting(result: dict[str, Any], call: dict[str, Any]) -> bool:
    output = result.get("output")
    text = output if isinstance(output, str) else orjson.dumps(output).decode()
    ownership = call.get("ownership", "")
    untrusted = is_untrusted_output(result["name"], ownership, text, answered=True)
    tainting = result["name"] in TAINTING_TOOLS or ownership == "custom"
    return result["state"] in ANSWERED and (tainting or untrusted)
