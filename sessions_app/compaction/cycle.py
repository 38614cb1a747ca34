"""One compaction from beginning to end: save, summarise, write the snapshot. It works or changes nothing.

It cannot loop: a cycle ends below the threshold, or holds until the log has grown.
"""

from __future__ import annotations

import structlog

from config.faults import CompactionFailed, ProviderFault, SnapshotChanged
from sessions_app.compaction.plan import Plan, plan_for
from sessions_app.compaction.saving import save
from sessions_app.compaction.snapshots import hold, store
from sessions_app.compaction.summary import summarise
from sessions_app.context.builder import Context
from sessions_app.log import NewEvent
from sessions_app.models import ContextSnapshot, SessionEvent
from sessions_app.points import reached
from sessions_app.turn import Turn

log = structlog.get_logger(__name__)

Trigger = ContextSnapshot.Trigger


def compact_if_full(turn: Turn, context: Context) -> bool:
    """Compact before a model call when the context is nearly full. True: it is smaller now."""
    if not context.is_full or turn.ground.last_seq < turn.ground.compact_after_seq:
        return False
    return compact(turn, context.provider, context.model, Trigger.AUTO) is not None


def compact(
    turn: Turn, provider: str, model: str, trigger: ContextSnapshot.Trigger
) -> ContextSnapshot | None:
    """The new snapshot; None when there was nothing to gain, or it failed and said so."""
    plan = plan_for(turn, provider, model, trigger)
    if plan is None:
        return None
    try:
        snapshot = _work(turn, plan)
    except (CompactionFailed, ProviderFault) as fault:
        log.warning("compaction_failed", session_id=str(turn.session_id), why=fault.detail)
        hold(turn, failure_event(fault))
        turn.listen(anew=False)
        if trigger == Trigger.MANUAL:
            raise
        return None
    except SnapshotChanged:
        snapshot = None  # Somebody undid what this one was built on; the next call looks again.
    turn.listen(anew=False)
    return snapshot


def _work(turn: Turn, plan: Plan) -> ContextSnapshot:
    memory_ids = save(turn, plan)
    summary = summarise(turn, plan)
    reached("after_summary")
    reached("before_snapshot")
    return store(turn, plan, summary, memory_ids)


def failure_event(fault: CompactionFailed | ProviderFault) -> NewEvent:
    message = fault.detail
    if not isinstance(fault, CompactionFailed):
        message = f"The context could not be compacted: {fault.detail} Nothing was changed."
    payload = {"code": CompactionFailed.code, "message": message, "retryable": False}
    return NewEvent(type=SessionEvent.Type.ERROR, payload=payload)
