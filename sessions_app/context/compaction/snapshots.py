"""Stores and undoes snapshots, each in one commit with its event and the session's cursor."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.providers.base import estimate_tokens
from core.exceptions import Conflict, NotFound
from sessions_app.context.builder import ContextBasis
from sessions_app.context.compaction.plan import CompactionPlan
from sessions_app.context.deferred import loaded_names
from sessions_app.exceptions import SnapshotChanged
from sessions_app.harness.turn import Turn
from sessions_app.log.sql import lock_lane, retry_on_disconnect
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import ContextSnapshot, Session, SessionEvent

EventType = SessionEvent.Type
#: After a compaction that failed or was undone, automatic compaction waits for this many events.
PAUSE_EVENTS = 20


def store_snapshot(
    turn: Turn, plan: CompactionPlan, summary: str, memory_ids: list[UUID]
) -> ContextSnapshot:
    """Store the summary as the active snapshot.

    Raise SnapshotChanged if another snapshot was made or undone since the plan was read.
    """
    cut, basis = plan.cut, turn.basis
    snapshot = ContextSnapshot(
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        run_id=turn.claim.run_id,
        previous_id=basis.snapshot_id,
        created_by_id=turn.user_id,
        trigger=plan.trigger,
        first_seq=1,
        last_seq=cut.last_seq,
        first_kept_seq=cut.first_kept_seq,
        carried=cut.carried,
        loaded_tools=_loaded_tools(plan, basis),
        summary=summary,
        model=plan.model,
        tokens_before=plan.context.total_tokens,
        tokens_after=plan.tokens_after + estimate_tokens(summary),
        memory_ids=memory_ids,
    )

    def write(again: bool) -> None:
        with transaction.atomic():
            lock_lane(turn.session_id, turn.claim.epoch)
            if again and ContextSnapshot.objects.filter(pk=snapshot.pk).exists():
                return
            if _active_id(turn.session_id) != basis.snapshot_id:
                raise SnapshotChanged
            snapshot.save(force_insert=True)
            _set_cursor(turn.session_id, snapshot)
            event = NewEvent(type=EventType.CONTEXT_COMPACTED, payload=_payload(snapshot))
            append_events(
                turn.session_id, [event], epoch=turn.claim.epoch, run_id=turn.claim.run_id
            )

    retry_on_disconnect(write)
    return snapshot


def _loaded_tools(plan: CompactionPlan, basis: ContextBasis) -> list[str]:
    """Return the deferred tools that were loaded up to the end of what the snapshot covers."""
    covered = loaded_names((entry.type, entry.payload) for entry in plan.cut.covered)
    return list(dict.fromkeys([*basis.loaded_tools, *covered]))


def _payload(snapshot: ContextSnapshot) -> dict[str, object]:
    return {
        "snapshot_id": str(snapshot.pk),
        "first_kept_seq": snapshot.first_kept_seq,
        "tokens_before": snapshot.tokens_before,
        "tokens_after": snapshot.tokens_after,
        "trigger": snapshot.trigger,
    }


@transaction.atomic
def undo_snapshot(session: Session, snapshot_id: UUID, user_id: UUID | None) -> ContextSnapshot:
    """Make the previous snapshot active again, or none. Only the newest active one can be undone."""
    last_seq = lock_lane(session.pk).last_seq
    known = ContextSnapshot.objects.for_workspace(session.workspace_id).filter(session=session)
    snapshot = known.select_related("previous").filter(pk=snapshot_id).first()
    if snapshot is None:
        raise NotFound
    if snapshot.undone_at:
        raise Conflict("This snapshot was undone already.")
    if _active_id(session.pk) != snapshot.pk:
        raise Conflict("Only the newest snapshot can be undone, and there is a newer one.")
    known.filter(pk=snapshot.pk).update(undone_at=Now(), undone_by_id=user_id)
    _set_cursor(session.pk, snapshot.previous)
    # Otherwise the next message would compact the context again.
    Session.objects.filter(pk=session.pk).update(compact_after_seq=last_seq + PAUSE_EVENTS)
    first_kept_seq = snapshot.previous.first_kept_seq if snapshot.previous else 1
    event = NewEvent(
        type=EventType.COMPACTION_UNDONE,
        payload={**_payload(snapshot), "first_kept_seq": first_kept_seq},
    )
    append_events(session.pk, [event], author_id=user_id)
    snapshot.refresh_from_db()
    return snapshot


def pause_compaction(turn: Turn, error_event: NewEvent) -> None:
    """Record that compaction failed, and pause automatic compaction for a while, in one commit."""

    def write(again: bool) -> None:
        with transaction.atomic():
            last_seq = lock_lane(turn.session_id, turn.claim.epoch).last_seq
            if again and SessionEvent.objects.filter(pk=error_event.id).exists():
                return
            append_events(
                turn.session_id, [error_event], epoch=turn.claim.epoch, run_id=turn.claim.run_id
            )
            Session.objects.filter(pk=turn.session_id).update(
                compact_after_seq=last_seq + PAUSE_EVENTS
            )

    retry_on_disconnect(write)


def _active_id(session_id: UUID) -> UUID | None:
    """Return the id of the active snapshot. The caller holds the lock on the session."""
    rows = ContextSnapshot.objects.filter(session_id=session_id).active()
    return rows.values_list("pk", flat=True).first()


def _set_cursor(session_id: UUID, snapshot: ContextSnapshot | None) -> None:
    Session.objects.filter(pk=session_id).update(snapshot_seq=snapshot.last_seq if snapshot else 0)


def copy_to_fork(source: Session, fork: Session, at_seq: int) -> None:
    """Give a fork the newest snapshot that covers only the history they share."""
    known = ContextSnapshot.objects.filter(session=source, last_seq__lte=at_seq).active().first()
    if known is None:
        return
    copy = ContextSnapshot.objects.create(
        workspace_id=fork.workspace_id,
        session=fork,
        created_by_id=fork.created_by_id,
        trigger=known.trigger,
        first_seq=known.first_seq,
        last_seq=known.last_seq,
        first_kept_seq=known.first_kept_seq,
        carried=known.carried,
        loaded_tools=known.loaded_tools,
        summary=known.summary,
        model=known.model,
        tokens_before=known.tokens_before,
        tokens_after=known.tokens_after,
    )
    _set_cursor(fork.pk, copy)
    Session.objects.filter(pk=fork.pk).update(flushed_seq=min(source.flushed_seq, at_seq))
