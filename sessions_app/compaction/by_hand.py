"""Compaction because somebody asks for it: a run of its own, so that it never meets a turn."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction

from config.faults import CompactionFailed, Invalid, ProviderFault, SessionEnded
from sessions_app.compaction.cycle import compact
from sessions_app.models import ContextSnapshot, Run, Session
from sessions_app.statements import hold_lane
from sessions_app.turn import Turn
from sessions_app.wake import wake

MOST_KEPT, LEAST_TARGET = 1_000, 300
NOTHING = "There is nothing to compact yet."


def read_wishes(
    *, keep_recent_messages: int | None, target_token_count: int | None
) -> dict[str, Any]:
    """What was wished for, within what can be done."""
    if keep_recent_messages is not None and not 0 <= keep_recent_messages <= MOST_KEPT:
        raise Invalid(f"keep_recent_messages is a number from 0 to {MOST_KEPT:,}.")
    if target_token_count is not None and not LEAST_TARGET <= target_token_count <= 2**31 - 1:
        raise Invalid(f"target_token_count is a number from {LEAST_TARGET} on.")
    given = {
        "keep_recent_messages": keep_recent_messages,
        "target_token_count": target_token_count,
    }
    return {name: value for name, value in given.items() if value is not None}


@transaction.atomic
def request_compaction(session: Session, wishes: dict[str, Any], user_id: UUID | None) -> Run:
    """Queue the run behind what waits already. Who asks twice gets the same run."""
    held = hold_lane(session.pk)
    session.refresh_from_db(fields=["status", "archived_at"])
    if session.status == Session.Status.TERMINATED or session.archived_at:
        raise SessionEnded
    waiting = Run.objects.filter(
        session=session, purpose=Run.Purpose.COMPACT, status=Run.Status.QUEUED
    ).first()
    if waiting:
        return waiting
    run = Run.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        created_by_id=user_id,
        purpose=Run.Purpose.COMPACT,
        wishes=wishes,
        rank=held.last_seq,
    )
    wake(session.pk)
    run.refresh_from_db()
    return run


def compact_by_hand(turn: Turn) -> dict[str, Any]:
    """Do what was asked for, and say what came of it."""
    made = ContextSnapshot.objects.filter(
        session_id=turn.session_id, run_id=turn.claim.run_id
    ).first()
    if made is None:
        version = turn.version
        try:
            made = compact(turn, version.provider, version.model, ContextSnapshot.Trigger.MANUAL)
        except ProviderFault as fault:
            raise CompactionFailed(fault.detail) from fault
    if made is None:
        return {"text": NOTHING, "snapshot_id": None}
    return {
        "text": f"Compacted {made.tokens_before:,} to {made.tokens_after:,} tokens.",
        "snapshot_id": str(made.pk),
        "tokens_before": made.tokens_before,
        "tokens_after": made.tokens_after,
    }
