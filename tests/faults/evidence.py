"""Reads a stack's rows after a load and reports every violated invariant."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from core.postgres import socket_dir

BUSY = """
SELECT count(*) FROM agent_sessions s
 WHERE s.status <> 'idle'
    OR EXISTS (SELECT 1 FROM agent_run_queue q WHERE q.session_id = s.id
                AND q.status IN ('queued', 'running'))
"""
GAPS = """
SELECT s.id FROM agent_sessions s LEFT JOIN session_messages m ON m.session_id = s.id
 GROUP BY s.id HAVING count(m.*) <> s.last_seq OR coalesce(max(m.seq), 0) <> s.last_seq
"""
#: A run that ended in a wait has not answered; one that finished its turn has.
UNANSWERED = """
SELECT m.session_id, m.seq, q.status, q.stop_reason, q.error FROM session_messages m
  LEFT JOIN agent_run_queue q ON q.id = m.processed_run_id
 WHERE m.type = 'user.message' AND NOT EXISTS (
   SELECT 1 FROM agent_run_queue e WHERE e.session_id = m.session_id AND turn_root(e.id) = q.id
      AND e.status = 'completed' AND e.stop_reason = 'end_turn')
"""
LIFE = """
SELECT session_id, run_id, type, payload ->> 'to' FROM session_messages
 WHERE run_id IS NOT NULL ORDER BY session_id, seq
"""
UNPAIRED = """
SELECT t.tool_use_id FROM tool_executions t LEFT JOIN session_messages m ON m.session_id = t.session_id
   AND m.type = 'agent.tool_result' AND m.payload ->> 'tool_use_id' = t.tool_use_id
 GROUP BY t.tool_use_id, t.state
HAVING count(m.*) <> 1 OR t.state IN ('requested', 'awaiting_approval', 'running')
"""
#: A balance that is not the sum of its ledger, or a reservation without a call.
WRONG_PURSES = """
SELECT p.workspace_id, p.ceiling - p.spent, p.reserved, sum(e.amount) FROM purses p
  LEFT JOIN credit_ledger e ON e.workspace_id = p.workspace_id
 WHERE p.kind = 'workspace' GROUP BY p.id
HAVING p.ceiling - p.spent <> coalesce(sum(e.amount), 0)
    OR p.reserved <> (SELECT coalesce(sum(c.reserved), 0) FROM model_calls c
                       WHERE c.workspace_id = p.workspace_id AND c.state = 'reserved')
"""
#: Sessions whose totals differ from the sum of their calls.
WRONG_TOTALS = """
SELECT s.id, s.cost, sum(c.cost), s.input_tokens, sum(c.input_tokens) FROM agent_sessions s
  LEFT JOIN model_calls c ON c.session_id = s.id GROUP BY s.id
HAVING s.cost <> coalesce(sum(c.cost), 0) OR s.input_tokens <> coalesce(sum(c.input_tokens), 0)
    OR s.output_tokens <> coalesce(sum(c.output_tokens), 0)
"""
#: Answers without a recorded model call.
UNPAID = """
SELECT m.run_id FROM session_messages m WHERE m.type = 'agent.message' AND m.payload ? 'model'
 GROUP BY m.run_id HAVING count(*) > (SELECT count(*) FROM model_calls c WHERE c.run_id = m.run_id)
"""
#: Sub-agents whose result was not delivered exactly once.
UNDELIVERED = """
SELECT w.id, w.status, count(m.*) FROM subagent_spawns w LEFT JOIN session_messages m
    ON m.session_id = w.parent_session_id AND m.type = 'session.child_idle'
   AND m.payload ->> 'spawn_id' = w.id::text
 GROUP BY w.id HAVING count(m.*) <> 1 OR w.delivered_at IS NULL
"""
MESSAGES = """
SELECT session_id::text, array_agg(payload ->> 'text' ORDER BY seq) FROM session_messages
 WHERE type = 'user.message' GROUP BY session_id
"""


class Evidence:
    """Reads the rows of one stack and the effects of its tools."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        where = f"host={socket_dir(self._data_dir)} user=postgres dbname=switchyard"
        with psycopg.connect(where) as database:
            return database.execute(query.encode()).fetchall()

    def is_quiet(self) -> bool:
        """Return whether every session is idle. A database that restarts is not quiet."""
        try:
            return self.rows(BUSY) == [(0,)]
        except psycopg.OperationalError:
            return False

    def messages(self) -> dict[str, list[str]]:
        return {session: texts for session, texts in self.rows(MESSAGES) if texts}

    def faults(self) -> list[str]:
        """Return every violated invariant as text."""
        found = [f"gap in {row}" for row in self.rows(GAPS)]
        found += [f"not answered: {row}" for row in self.rows(UNANSWERED)]
        found += [f"call without its one result: {row}" for row in self.rows(UNPAIRED)]
        found += [f"purse that does not add up: {row}" for row in self.rows(WRONG_PURSES)]
        found += [f"session that does not add up: {row}" for row in self.rows(WRONG_TOTALS)]
        found += [f"answer without its call: {row}" for row in self.rows(UNPAID)]
        found += [f"result not delivered once: {row}" for row in self.rows(UNDELIVERED)]
        return found + self._overlaps() + self._repeated_effects()

    def _overlaps(self) -> list[str]:
        """Return runs that interleave: each must start after the previous one has ended."""
        found, holder = [], dict[Any, Any]()
        for session, run, type, to in self.rows(LIFE):
            if type == "session.status_changed" and to == "running":
                if holder.get(session):
                    found.append(f"overlap in {session}: {run} began during {holder[session]}")
                holder[session] = run
            elif type in {"session.status_idle", "session.status_changed"}:
                holder[session] = None
            elif holder.get(session) != run:
                found.append(f"{type} of {run} in {session} while {holder.get(session)} held it")
        return found

    def _repeated_effects(self) -> list[str]:
        file = self._data_dir / "effects"
        lines = Counter(file.read_text().split()) if file.exists() else Counter[str]()
        return [f"effect {name} happened {n} times" for name, n in lines.items() if n > 1]
