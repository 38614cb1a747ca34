"""Builds what the model is given for its next answer.

Only the newest events are read, so a turn costs the same in a session of ten events and in one of
ten thousand.
"""

from __future__ import annotations

from uuid import UUID

import orjson

from agents.models_catalog import find_model
from agents.providers.base import ModelRequest
from sessions_app.models import SessionEvent
from sessions_app.statements import rows
from sessions_app.turn import Turn
from sessions_app.view import Line, build_messages, trim

E = SessionEvent.Type
WINDOW_SHARE = 0.7  #: Of the model's window, for the conversation; the rest is for the answer.
#: Events that are read: as many as would fill the window if each had this many tokens.
TOKENS_PER_EVENT, FEWEST, MOST = 100, 60, 2_000
READ = """
SELECT seq, type, payload, taken, run_id FROM (
  SELECT seq, type, payload, processed_at IS NOT NULL AS taken, run_id,
         CASE WHEN type = 'user.message' THEN coalesce(processed_at, created_at)
              ELSE created_at END AS known_at
    FROM session_messages WHERE session_id = %s AND seq > %s AND type = ANY(%s)
   ORDER BY seq DESC LIMIT %s) newest
 ORDER BY known_at, seq
"""
SEEN = [
    E.USER_MESSAGE,
    E.USER_MESSAGE_EDITED,
    E.AGENT_MESSAGE,
    E.AGENT_TOOL_USE,
    E.AGENT_CUSTOM_TOOL_USE,
    E.AGENT_TOOL_RESULT,
]


def read_lines(session_id: UUID, after: int, limit: int = MOST) -> list[Line]:
    """The newest lines, in the order in which the agent came to know them.

    A message that waited stands where a run took it, not where it was written.
    """
    return [
        Line(seq=seq, type=type, payload=orjson.loads(payload), taken=taken, run_id=run_id)
        for seq, type, payload, taken, run_id in rows(READ, [session_id, after, SEEN, limit])
    ]


def build_request(turn: Turn, provider: str, model: str) -> ModelRequest:
    """Everything the model is given for its next answer."""
    version = turn.version
    budget = int(find_model(provider, model).window * WINDOW_SHARE)
    limit = max(FEWEST, min(budget // TOKENS_PER_EVENT, MOST))
    lines = read_lines(turn.session_id, turn.snapshot_seq, limit)
    return ModelRequest(
        model=model,
        instructions=version.system_prompt,
        messages=tuple(trim(build_messages(lines), budget)),
        tools=tuple(tool.spec() for tool in turn.tools.values()),
        temperature=version.temperature,
        max_tokens=version.max_tokens,
    )
