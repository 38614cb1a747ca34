"""Tells which outputs of tools are untrusted, and whether a session has seen untrusted text.

`tools_app/taint.py` fences such text. What an agent stores after its session has seen untrusted text
is stored as untrusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from sessions_app.log.sql import row
from sessions_app.models import Session, SessionEvent

EventType = SessionEvent.Type

#: Tools that return text from the web.
WEB_TOOLS = frozenset({"web_fetch", "web_search"})
#: Tools that return text from other sessions, which models wrote, perhaps from untrusted text.
SESSION_TOOLS = frozenset({"sessions_history", "sessions_list"})
#: Tools whose result is the answer of another session, once there is one.
DELEGATING_TOOLS = frozenset({"sessions_spawn", "sessions_send"})
#: How the memory tools mark a document of untrusted origin.
UNTRUSTED_MEMORY = ("untrusted: information", "trust: untrusted")
#: Calls of these tools taint their session. What another session wrote has no known origin.
TAINTING_TOOLS = ["web_fetch", "web_search", "sessions_history"]
MEMORY_TOOLS = ["memory_search", "memory_get"]
#: States of calls whose tool may have returned something.
ANSWERED = ["completed", "error", "unknown"]
TOOL_USES = (EventType.AGENT_TOOL_USE, EventType.AGENT_CUSTOM_TOOL_USE)
#: Walks from a session to every session whose text may have reached it: sub-agents that delivered,
#: the sessions above it, senders of messages, and the sessions behind a workflow that wrote to it.
IS_TAINTED = """
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
SELECT EXISTS (SELECT 1 FROM agent_sessions s WHERE s.id IN (SELECT id FROM heard) AND s.saw_outside)
 OR EXISTS (SELECT 1 FROM tool_executions t
  WHERE t.session_id IN (SELECT id FROM heard) AND t.state = ANY(%s)
    AND (t.ownership = 'mcp' OR t.name = ANY(%s)
         OR t.name = ANY(%s) AND (strpos(t.output::text, %s) > 0 OR strpos(t.output::text, %s) > 0)))
"""


def is_untrusted_output(name: str, ownership: str, output: str, answered: bool = False) -> bool:
    """Return whether a tool's output was written by an unknown author or by another agent.

    `answered` says that the output holds the answer of another session.
    """
    if ownership == "mcp" or name.startswith("mcp:") or name in WEB_TOOLS:
        return True
    if name in SESSION_TOOLS or (name in DELEGATING_TOOLS and answered):
        return True
    return name.startswith("memory_") and any(mark in output for mark in UNTRUSTED_MEMORY)


def is_tainted(session_id: UUID) -> bool:
    """Return whether a session has seen untrusted text, directly or through another session."""
    (tainted,) = row(
        IS_TAINTED, [session_id, ANSWERED, TAINTING_TOOLS, MEMORY_TOOLS, *UNTRUSTED_MEMORY]
    )
    return bool(tainted)


def mark_tainted(session_id: UUID) -> None:
    """Record that a session saw untrusted text without a call: recalled memory, or an import."""
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
    untrusted = is_untrusted_output(result["name"], call.get("ownership", ""), text, answered=True)
    return result["state"] in ANSWERED and (result["name"] in TAINTING_TOOLS or untrusted)
