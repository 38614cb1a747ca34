"""Whether a session has seen what strangers wrote. What its agent stores after that is not trusted."""

from __future__ import annotations

from uuid import UUID

from memory.models import MemoryEntry
from sessions_app.context.fencing import OUTSIDE_MEMORY
from sessions_app.statements import row
from tools_app.context import ToolContext

WEB = ["web_fetch", "web_search"]
MEMORY = ["memory_search", "memory_get"]
SAW = """
SELECT EXISTS (SELECT 1 FROM tool_executions t
  WHERE t.session_id = %s AND t.state = 'completed'
    AND (t.ownership = 'mcp' OR t.name = ANY(%s)
         OR t.name = ANY(%s) AND (strpos(t.output::text, %s) > 0 OR strpos(t.output::text, %s) > 0)))
"""


def saw_outside(session_id: UUID) -> bool:
    """A web page, an MCP server's answer, or a memory that came from one."""
    (saw,) = row(SAW, [session_id, WEB, MEMORY, *OUTSIDE_MEMORY])
    return bool(saw)


def trust_of_call(context: ToolContext) -> MemoryEntry.Trust:
    """The rule that memory asks: see `memory.trust`."""
    outside = context.saw_untrusted or saw_outside(context.session_id)
    return MemoryEntry.Trust.UNTRUSTED if outside else MemoryEntry.Trust.TRUSTED
