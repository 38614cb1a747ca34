"""Writes snapshots and undoes them: each with its event and the session's cursor, in one commit."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.providers.estimate import estimate_tokens
from config.faults import Conflict, NotFound, SnapshotChanged
from sessions_app.compaction.plan import Plan
from sessions_app.log import NewEvent, append_events
from sessions_app.models import ContextSnapshot, Session, SessionEvent
from sessions_app.statements import hold_lane, patiently
from sessions_app.turn import Turn

E = SessionEvent.Type
#: So many events must come before a compaction is tried by itself again, after one that failed
#: or was undone.
HOLD_EVENTS = 20


def store(turn: Turn, plan: Plan, summary: str, memory_ids: list[UUID]) -> ContextSnapshot:
    """Let the summary stand for what it covers, unless somebody changed the ground meanwhile."""
    cut, ground = plan.cut, turn.ground
    made = ContextSnapshot(
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        run_id=turn.claim.run_id,
        previous_id=ground.snapshot_id,
        created_by_id=turn.user_id,
        trigger=plan.trigger,
        first_seq=1,
        last_seq=cut.last_seq,
        first_kept_seq=cut.first_kept_seq,
        carried=cut.carried,
        summary=summary,
        model=plan.model,
        tokens_before=plan.context.counted,
        tokens_after=plan.tokens_after + estimate_tokens(summary),
        memory_ids=memory_ids,
    )

    def write(again: bool) -> None:
        with transaction.atomic():
            hold_lane(turn.session_id, turn.claim.epoch)
            if again and ContextSnapshot.objects.filter(pk=made.pk).exists():
                return
            if _active_id(turn.session_id) != ground.snapshot_id:
                raise SnapshotChanged
            made.save(force_insert=True)
            _move(turn.session_id, made)
            event = NewEvent(type=E.CONTEXT_COMPACTED, payload=payload_of(made))
            append_events(
                turn.session_id, [event], epoch=turn.claim.epoch, run_id=turn.claim.run_id
            )

    patiently(write)
    return made


def payload_of(snapshot: ContextSnapshot) -> dict[str, object]:
    return {
        "snapshot_id": str(snapshot.pk),
        "first_kept_seq": snapshot.first_kept_seq,
        "tokens_before": snapshot.tokens_before,
        "tokens_after": snapshot.tokens_after,
        "trigger": snapshot.trigger,
    }


@transaction.atomic
def undo(session: Session, snapshot_id: UUID, user_id: UUID | None) -> ContextSnapshot:
    """Put back the snapshot before, or all of the log. Only the newest active one can be undone."""
    last_seq = hold_lane(session.pk).last_seq
    known = ContextSnapshot.objects.for_workspace(session.workspace_id).filter(session=session)
    snapshot = known.select_related("previous").filter(pk=snapshot_id).first()
    if snapshot is None:
        raise NotFound
    if snapshot.undone_at:
        raise Conflict("This snapshot was undone already.")
    if _active_id(session.pk) != snapshot.pk:
        raise Conflict("Only the newest snapshot can be undone, and there is a newer one.")
    known.filter(pk=snapshot.pk).update(undone_at=Now(), undone_by_id=user_id)
    _move(session.pk, snapshot.previous)
    # Otherwise the next message would bring it back.
    Session.objects.filter(pk=session.pk).update(compact_after_seq=last_seq + HOLD_EVENTS)
    event = NewEvent(
        type=E.CONTEXT_COMPACTED,
        payload={
            **payload_of(snapshot),
            "first_kept_seq": snapshot.previous.first_kept_seq if snapshot.previous else 1,
            "undone": True,
        },
    )
    append_events(session.pk, [event], author_id=user_id)
    snapshot.refresh_from_db()
    return snapshot


def hold(turn: Turn, fault_event: NewEvent) -> None:
    """Say that it failed, and try no more by itself for a while. One commit."""

    def write(again: bool) -> None:
        with transaction.atomic():
            last_seq = hold_lane(turn.session_id, turn.claim.epoch).last_seq
            if again and SessionEvent.objects.filter(pk=fault_event.id).exists():
                return
            append_events(
                turn.session_id, [fault_event], epoch=turn.claim.epoch, run_id=turn.claim.run_id
            )
            Session.objects.filter(pk=turn.session_id).update(
                compact_after_seq=last_seq + HOLD_EVENTS
            )

    patiently(write)


def _active_id(session_id: UUID) -> UUID | None:
    """The caller holds the session's row."""
    rows = ContextSnapshot.objects.filter(session_id=session_id).active()
    return rows.values_list("pk", flat=True).first()


def _move(session_id: UUID, snapshot: ContextSnapshot | None) -> None:
    Session.objects.filter(pk=session_id).update(snapshot_seq=snapshot.last_seq if snapshot else 0)


def copy_to_fork(source: Session, fork: Session, at_seq: int) -> None:
    """Give a fork the newest snapshot that speaks only of the past they share."""
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
        summary=known.summary,
        model=known.model,
        tokens_before=known.tokens_before,
        tokens_after=known.tokens_after,
    )
    _move(fork.pk, copy)
    Session.objects.filter(pk=fork.pk).update(flushed_seq=min(source.flushed_seq, at_seq))
