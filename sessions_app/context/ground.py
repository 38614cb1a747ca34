"""What a context stands on: the active snapshot, who speaks, and whether anything is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sessions_app.statements import row

# One statement, a few rows by their keys, however long the session is.
LOAD = """
SELECT c.id, s.snapshot_seq, coalesce(c.summary, ''), coalesce(c.carried, '{}'), s.flushed_seq,
       s.compact_after_seq, s.last_seq, who.id,
       EXISTS (SELECT 1 FROM agent_memory_entries e WHERE e.workspace_id = s.workspace_id
                 AND e.owner_id = ANY(ARRAY[s.workspace_id, s.agent_id, s.id, who.id])
                 AND e.deleted_at IS NULL)
  FROM agent_sessions s
  LEFT JOIN agent_run_queue q ON q.id = %s
  LEFT JOIN LATERAL (
    SELECT n.id, n.summary, n.carried FROM agent_context_snapshots n
     WHERE n.session_id = s.id AND n.undone_at IS NULL ORDER BY n.id DESC LIMIT 1) c ON true
  LEFT JOIN agent_run_queue r ON r.id = coalesce(turn_root(q.id), q.id)
  CROSS JOIN LATERAL (SELECT CASE
    WHEN q.id IS NULL THEN %s::uuid
    -- Who sent what was steered here speaks from when it is taken, and not before.
    WHEN cardinality(r.message_seqs || q.message_seqs) > 0 THEN (
      SELECT m.created_by_id FROM session_messages m
       WHERE m.session_id = s.id AND m.seq = ANY(r.message_seqs || q.message_seqs)
         AND m.processed_at IS NOT NULL ORDER BY m.seq DESC LIMIT 1)
    ELSE r.created_by_id END AS id) who
 WHERE s.id = %s
"""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Read once per run, and again after what changes it."""

    snapshot_id: UUID | None = None
    snapshot_seq: int = 0
    summary: str = ""
    #: Lines up to `snapshot_seq` that the snapshot does not stand for.
    carried: tuple[int, ...] = ()
    flushed_seq: int = 0
    compact_after_seq: int = 0
    last_seq: int = 0
    #: Whose message is answered: that person's memory is looked into, and no other's.
    speaker_id: UUID | None = None
    has_memory: bool = False


def load_ground(
    session_id: UUID, *, run_id: UUID | None = None, viewer_id: UUID | None = None
) -> Ground:
    """What a run of this session stands on; without a run, what a viewer would be shown."""
    found = row(LOAD, [run_id, viewer_id, session_id])
    snapshot_id, snapshot_seq, summary, carried, flushed, after, last, speaker, memory = found
    return Ground(
        snapshot_id=snapshot_id,
        snapshot_seq=snapshot_seq,
        summary=summary,
        carried=tuple(carried),
        flushed_seq=flushed,
        compact_after_seq=after,
        last_seq=last,
        speaker_id=speaker,
        has_memory=memory,
    )
