"""Lets the agent save what matters to its memory before it is shortened: once, and only when it worked."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from django.db import transaction

from memory.models import MemoryEntry, MemoryVersion
from memory.owner import Author, owner_within
from memory.reader import Reader
from memory.writing import Marks, write_entry
from sessions_app.compaction.plan import Plan
from sessions_app.compaction.prompts import batches, save_request
from sessions_app.completing import complete
from sessions_app.outside import saw_outside
from sessions_app.points import reached
from sessions_app.statements import patiently, row
from sessions_app.turn import Turn
from tenants.models import ModelCall

MOST_LINES, LINE_CHARS = 60, 500
TARGET = 600
MARK = """
UPDATE agent_sessions SET flushed_seq = greatest(flushed_seq, %s)
 WHERE id = (SELECT (lane_lock(%s, %s)).id) RETURNING flushed_seq
"""


def save(turn: Turn, plan: Plan) -> list[UUID]:
    """Ask for what is worth keeping and write it down. Answers with the documents' ids.

    What was saved in an earlier try of the same lines is not asked for again.
    """
    new = [line for line in plan.cut.covered if line.seq > turn.ground.flushed_seq]
    if not new or not turn.subject.may_store:
        return []
    size = max(500, plan.context.room.window * 6 // 10 - 2 * TARGET)
    notes: list[str] = []
    for record in batches(new, size):
        request = save_request(plan.model, record, mark=plan.mark, target=TARGET)
        notes += _notes(complete(turn, plan.provider, request, purpose=ModelCall.Purpose.FLUSH))
    notes = list(dict.fromkeys(notes))[:MOST_LINES]
    reached("inside_flush")
    saved = patiently(lambda again: _write(turn, notes, plan.cut.last_seq))
    reached("after_flush")
    return saved


def _notes(answer: str) -> list[str]:
    """The lines of a list; whatever else a model says around it is left out."""
    lines = (line.strip() for line in answer.splitlines())
    return [
        f"- {line.lstrip('-*• ').strip()[:LINE_CHARS]}"
        for line in lines
        if line[:2] in {"- ", "* ", "• "} and line.lstrip("-*• ").strip()
    ]


@transaction.atomic
def _write(turn: Turn, notes: list[str], last_seq: int) -> list[UUID]:
    """The document and the mark that it was written, in one commit, by the holder of the lane."""
    row(MARK, [last_seq, turn.session_id, turn.claim.epoch])
    if not notes:
        return []
    reader = Reader(workspace_id=turn.workspace_id, agent_id=turn.agent_id)
    outside = saw_outside(turn.session_id)
    trust = MemoryEntry.Trust.UNTRUSTED if outside else MemoryEntry.Trust.TRUSTED
    now = datetime.now(UTC)
    entry = write_entry(
        owner=owner_within(reader, "agent"),
        path=f"daily/{now:%Y-%m-%d}/{turn.session_id.hex[-8:]}-{last_seq}.md",
        content="\n".join(notes) + "\n",
        author=Author(
            kind=MemoryVersion.Author.TOOL,
            tool="compaction",
            session_id=turn.session_id,
            run_id=turn.claim.run_id,
            call_id=f"compaction:{last_seq}",
        ),
        marks=Marks(trust=trust),
    )
    return [entry.pk]
