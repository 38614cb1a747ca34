"""Compacts a context: saves what matters to memory, summarises, checks the summary, stores a
snapshot.

A failed or poor summary changes nothing. What was saved to memory once is not saved again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from agents.exceptions import ProviderFault
from core.exceptions import Invalid
from memory.documents import Marks, write_entry
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Author, Reader, owner_within
from sessions_app.context.builder import Context
from sessions_app.context.compaction import summaries
from sessions_app.context.compaction.plan import CompactionPlan, plan_compaction
from sessions_app.context.compaction.snapshots import pause_compaction, store_snapshot
from sessions_app.context.taint import is_tainted
from sessions_app.exceptions import CompactionFailed, SnapshotChanged
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.model_call import complete
from sessions_app.harness.turn import Turn
from sessions_app.lanes import run_queue
from sessions_app.log.sql import retry_on_disconnect, row
from sessions_app.log.writer import NewEvent
from sessions_app.models import ContextSnapshot, Run, Session, SessionEvent
from tenants.models import ModelCall

log = structlog.get_logger(__name__)

Trigger = ContextSnapshot.Trigger
#: Limits of the options of a requested compaction.
MAX_KEPT, MIN_TARGET = 1_000, 300
NOTHING_TO_COMPACT = "There is nothing to compact yet."
MAX_NOTES, NOTE_CHARS = 60, 500
SAVE_TOKENS = 600
MARK_FLUSHED = """
UPDATE agent_sessions SET flushed_seq = greatest(flushed_seq, %s)
 WHERE id = (SELECT (lane_lock(%s, %s)).id) RETURNING flushed_seq
"""


def parse_compaction_options(
    *, keep_recent_messages: int | None, target_token_count: int | None
) -> dict[str, Any]:
    """Check the options of a requested compaction and return those that were given."""
    if keep_recent_messages is not None and not 0 <= keep_recent_messages <= MAX_KEPT:
        raise Invalid(f"keep_recent_messages is a number from 0 to {MAX_KEPT:,}.")
    if target_token_count is not None and not MIN_TARGET <= target_token_count <= 2**31 - 1:
        raise Invalid(f"target_token_count is a number from {MIN_TARGET} on.")
    given = {"keep_recent_messages": keep_recent_messages, "target_token_count": target_token_count}
    return {name: value for name, value in given.items() if value is not None}


def request_compaction(session: Session, options: dict[str, Any], user_id: UUID | None) -> Run:
    """Queue a compaction behind the waiting runs. A second request returns the same run."""
    return run_queue.request(session, Run.Purpose.COMPACT, options, created_by_id=user_id)


def compact_on_request(turn: Turn) -> dict[str, Any]:
    """Run a requested compaction and return its result."""
    snapshot = ContextSnapshot.objects.filter(
        session_id=turn.session_id, run_id=turn.claim.run_id
    ).first()
    if snapshot is None:
        version = turn.version
        try:
            snapshot = compact(turn, version.provider, version.model, Trigger.MANUAL)
        except ProviderFault as fault:
            raise CompactionFailed(fault.detail) from fault
    if snapshot is None:
        return {"text": NOTHING_TO_COMPACT, "snapshot_id": None}
    return {
        "text": f"Compacted {snapshot.tokens_before:,} to {snapshot.tokens_after:,} tokens.",
        "snapshot_id": str(snapshot.pk),
        "tokens_before": snapshot.tokens_before,
        "tokens_after": snapshot.tokens_after,
    }


def compact_if_full(turn: Turn, context: Context) -> bool:
    """Compact before a model call if the context is nearly full. Return whether it is smaller now."""
    if not context.is_full or turn.basis.last_seq < turn.basis.compact_after_seq:
        return False
    return compact(turn, context.provider, context.model, Trigger.AUTO) is not None


def compact(
    turn: Turn, provider: str, model: str, trigger: ContextSnapshot.Trigger
) -> ContextSnapshot | None:
    """Return the new snapshot, or None if there was nothing to gain or a failure was recorded."""
    plan = plan_compaction(turn, provider, model, trigger)
    if plan is None:
        return None
    try:
        snapshot = _compact(turn, plan)
    except (CompactionFailed, ProviderFault) as fault:
        log.warning("compaction_failed", session_id=str(turn.session_id), why=fault.detail)
        pause_compaction(turn, _failure_event(fault))
        turn.reload_basis()
        if trigger == Trigger.MANUAL:
            raise
        return None
    except SnapshotChanged:
        # Its predecessor was undone meanwhile; the next call reads the state again.
        snapshot = None
    turn.reload_basis()
    return snapshot


def _compact(turn: Turn, plan: CompactionPlan) -> ContextSnapshot:
    memory_ids = save_to_memory(turn, plan)
    summary = summarise(turn, plan)
    crash_point("after_summary")
    crash_point("before_snapshot")
    return store_snapshot(turn, plan, summary, memory_ids)


def _failure_event(fault: CompactionFailed | ProviderFault) -> NewEvent:
    message = fault.detail
    if not isinstance(fault, CompactionFailed):
        message = f"The context could not be compacted: {fault.detail} Nothing was changed."
    payload = {"code": CompactionFailed.code, "message": message, "retryable": False}
    return NewEvent(type=SessionEvent.Type.ERROR, payload=payload)


def save_to_memory(turn: Turn, plan: CompactionPlan) -> list[UUID]:
    """Ask the model what is worth keeping and write it to memory. Return the ids of the documents.

    Entries that an earlier attempt saved are not asked about again.
    """
    new = [entry for entry in plan.cut.covered if entry.seq > turn.basis.flushed_seq]
    if not new or not turn.inputs.may_store:
        return []
    size = max(500, plan.context.budget.window * 6 // 10 - 2 * SAVE_TOKENS)
    notes: list[str] = []
    for record in summaries.batches(new, size):
        request = summaries.save_request(plan.model, record, mark=plan.mark, target=SAVE_TOKENS)
        notes += _notes(complete(turn, plan.provider, request, purpose=ModelCall.Purpose.FLUSH))
    notes = list(dict.fromkeys(notes))[:MAX_NOTES]
    crash_point("inside_flush")
    saved = retry_on_disconnect(lambda again: _write(turn, notes, plan.cut.last_seq))
    crash_point("after_flush")
    return saved


def _notes(answer: str) -> list[str]:
    """Return the items of a list, without anything else that the model wrote around it."""
    lines = (line.strip() for line in answer.splitlines())
    return [
        f"- {line.lstrip('-*• ').strip()[:NOTE_CHARS]}"
        for line in lines
        if line[:2] in {"- ", "* ", "• "} and line.lstrip("-*• ").strip()
    ]


@transaction.atomic
def _write(turn: Turn, notes: list[str], last_seq: int) -> list[UUID]:
    """Write the document and mark the entries as saved, in one commit, as the holder of the lane."""
    row(MARK_FLUSHED, [last_seq, turn.session_id, turn.claim.epoch])
    if not notes:
        return []
    reader = Reader(workspace_id=turn.workspace_id, agent_id=turn.agent_id)
    outside = is_tainted(turn.session_id)
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


def summarise(turn: Turn, plan: CompactionPlan) -> str:
    """Return a checked summary of everything covered, including the previous summary.

    A poor summary is requested once more; if it stays poor, CompactionFailed is raised.
    """
    *earlier, last = plan.records
    before = turn.basis.summary
    for record in earlier:
        before = _request_summary(turn, plan, record, before)
    expected = summaries.expected_content(plan.cut.covered, plan.target)
    summary = _request_summary(turn, plan, last, before)
    verdict = summaries.check_summary(summary, expected, plan.target)
    if not verdict.is_good:
        names = "; ".join(verdict.missing) or "what matters"
        missing = summaries.MISSING.format(why=verdict.why, names=names)
        summary = _request_summary(turn, plan, last, before, missing)
        verdict = summaries.check_summary(summary, expected, plan.target)
    if not verdict.is_good:
        raise CompactionFailed(
            f"The context could not be compacted: {plan.model} gave no good summary, {verdict.why}. "
            "Nothing was changed."
        )
    return summary


def _request_summary(
    turn: Turn, plan: CompactionPlan, record: str, before: str, missing: str = ""
) -> str:
    request = summaries.summary_request(
        plan.model, record, mark=plan.mark, target=plan.target, before=before, missing=missing
    )
    return complete(turn, plan.provider, request, purpose=ModelCall.Purpose.SUMMARY)
