"""Whether a session has seen what strangers wrote. What its agent stores after that is not trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from memory.models import MemoryEntry
from sessions_app.context.fencing import OUTSIDE_MEMORY, is_outside
from sessions_app.models import Session, SessionEvent
from sessions_app.statements import row
from tools_app.context import ToolContext

E = SessionEvent.Type

#: What other sessions said may hold anything, as nobody asks where they had it from.
WEB = ["web_fetch", "web_search", "sessions_history"]
MEMORY = ["memory_search", "memory_get"]
#: States of calls whose tool may have said something.
ANSWERED = ["completed", "error", "unknown"]
USES = (E.AGENT_TOOL_USE, E.AGENT_CUSTOM_TOOL_USE)
#: This session, and all that it has heard of: sub-agents, who gave it its task, who wrote to it, and
#: whatever the workflow that wrote to it had heard before.
SAW = """
WITH RECURSIVE heard (id) AS (
  SELECT %s::uuid
  UNION SELECT o.id FROM heard h CROSS JOIN LATERAL (
    SELECT w.child_session_id AS id FROM subagent_spawns w
     WHERE w.parent_session_id = h.id AND w.delivered_at IS NOT NULL
    UNION ALL SELECT s.parent_id FROM agent_sessions s WHERE s.id = h.id AND s.parent_id IS NOT NULL
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


def saw_outside(session_id: UUID) -> bool:
    """A web page, an MCP server's answer, a memory that came from one, or a session that saw such."""
    (saw,) = row(SAW, [session_id, ANSWERED, WEB, MEMORY, *OUTSIDE_MEMORY])
    return bool(saw)


def note_outside(session_id: UUID) -> None:
    """Keep in mind that it saw such without a call: it was reminded of it, or began with it."""
    Session.objects.filter(pk=session_id, saw_outside=False).update(saw_outside=True)


def tell_of_outside(events: Sequence[dict[str, Any]]) -> bool:
    """Whether events of an export, whose calls nobody here has on record, hold such words."""
    said = {e["payload"]["tool_use_id"]: e["payload"] for e in events if e["type"] in USES}
    return any(
        event["type"] == E.CHILD_IDLE
        or (
            event["type"] == E.AGENT_TOOL_RESULT
            and _brings_outside(event["payload"], said.get(event["payload"]["tool_use_id"], {}))
        )
        for event in events
    )


def _brings_outside(result: dict[str, Any], call: dict[str, Any]) -> bool:
    output = result.get("output")
    told = output if isinstance(output, str) else orjson.dumps(output).decode()
    outside = is_outside(result["name"], call.get("ownership", ""), told, answered=True)
    return result["state"] in ANSWERED and (result["name"] in WEB or outside)


def trust_of_call(context: ToolContext) -> MemoryEntry.Trust:
    """The rule that memory asks: see `memory.trust`."""
    outside = saw_outside(context.session_id)
    return MemoryEntry.Trust.UNTRUSTED if outside else MemoryEntry.Trust.TRUSTED
