"""Reads the lines of a session that its context is made of: those after the active snapshot.

A turn costs the same in a session of ten events and in one of ten thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import orjson

from sessions_app.context.fencing import fenced, mark_of
from sessions_app.models import SessionEvent
from sessions_app.outcomes.words import heard_of
from sessions_app.statements import rows
from sessions_app.wording import Line

E = SessionEvent.Type
MOST = 2_000
_LINE = """
SELECT seq, type, payload, processed_at IS NOT NULL AS taken, run_id,
       CASE WHEN type IN ('user.message', 'session.child_idle') THEN coalesce(processed_at, created_at)
            ELSE created_at END AS known_at
  FROM session_messages WHERE session_id = %s AND type = ANY(%s)
   AND CASE type WHEN 'session.child_idle' THEN payload -> 'shown' = 'true'
                 WHEN 'session.outcome_judged' THEN payload -> 'returned' = 'true' ELSE true END
"""
# Two looks at the index, as one condition for both would read the whole session.
# What the agent never hears of (the result of a call that waited for it, a verdict that ends the
# matter) is left out here and not later: who reads as many lines as it asked for knows of more.
_READ = f"""
SELECT seq, type, payload, taken, run_id FROM (
  ({_LINE} AND seq > %s ORDER BY seq {{order}} LIMIT %s)
  UNION ALL
  ({_LINE} AND seq = ANY(%s::bigint[]) AND seq <= %s)) found
 ORDER BY known_at, seq
"""  # noqa: S608 - made of constants only
NEWEST, OLDEST = _READ.format(order="DESC"), _READ.format(order="ASC")
SEEN = [
    E.USER_MESSAGE,
    E.USER_MESSAGE_EDITED,
    E.USER_MESSAGE_WITHDRAWN,
    E.AGENT_MESSAGE,
    E.AGENT_TOOL_USE,
    E.AGENT_CUSTOM_TOOL_USE,
    E.AGENT_TOOL_RESULT,
    E.CHILD_IDLE,
    E.OUTCOME_JUDGED,
]


def read_lines(
    session_id: UUID, after: int, limit: int = MOST, *, carried: Sequence[int] = ()
) -> list[Line]:
    """The newest lines, in the order in which the agent came to know them.

    A message that waited stands where a run took it, not where it was written. `carried` are
    lines up to `after` that the snapshot does not stand for.
    """
    return _read(NEWEST, session_id, after, limit, carried)


def read_oldest(
    session_id: UUID, after: int, limit: int, *, carried: Sequence[int] = ()
) -> list[Line]:
    """The same from the other end: the first lines after the snapshot."""
    return _read(OLDEST, session_id, after, limit, carried)


def _read(
    query: str, session_id: UUID, after: int, limit: int, carried: Sequence[int]
) -> list[Line]:
    found = rows(query, [session_id, SEEN, after, limit, session_id, SEEN, list(carried), after])
    lines = (
        Line(seq=seq, type=type, payload=orjson.loads(payload), taken=taken, run_id=run_id)
        for seq, type, payload, taken, run_id in found
    )
    mark = mark_of(session_id)
    return [_as_message(line, mark) for line in lines]


def _as_message(line: Line, mark: str) -> Line:
    """What a sub-agent brings is a message, and so is a verdict that sends the agent back.

    What another model wrote is fenced: it may carry the words of strangers.
    """
    if line.type == E.OUTCOME_JUDGED:
        said = {"text": heard_of(line.payload, mark)}
        return replace(line, type=E.USER_MESSAGE, payload=said, taken=True)
    if line.type != E.CHILD_IDLE:
        return line
    name = line.payload.get("title") or line.payload["child_session_id"]
    result = fenced(str(line.payload["result"]), mark, "result of a sub-agent")
    text = f"[The sub-agent {name!r} {line.payload['status']}. Its result:]\n{result}"
    return replace(line, type=E.USER_MESSAGE, payload={"text": text})
