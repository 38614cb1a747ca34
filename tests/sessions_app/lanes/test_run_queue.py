"""Tests of lanes: one run at a time, in order, none lost and none repeated."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection, transaction

from core.exceptions import StaleEpoch
from sessions_app.exceptions import SessionBusy, SessionEnded
from sessions_app.lanes import run_queue
from sessions_app.lanes.recovery import recover_lanes
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Run, Session, SessionEvent
from tests.sessions_app.conftest import OWNER, newest, types

E = SessionEvent.Type


def message(text: str = "hello", key: str | None = None) -> NewEvent:
    return NewEvent(type=E.USER_MESSAGE, payload={"text": text}, dedupe_key=key)


def send(session: Session, text: str = "hello", **words) -> run_queue.Accepted:
    return run_queue.accept(session.pk, message(text), **words)


def answer(text: str = "ok") -> NewEvent:
    return NewEvent(type=E.AGENT_MESSAGE, payload={"text": text})


def test_a_message_is_queued_claimed_and_answered(session):
    accepted = send(session)
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    assert claim.run_id == accepted.run_id

    finished = run_queue.finish(claim, OWNER, events=[answer()], result={"text": "ok"})

    assert not finished.goes_on
    assert finished.next is None
    assert types(session) == [
        "user.message",
        "session.status_changed",
        "agent.message",
        "session.status_idle",
    ]
    run = Run.objects.get()
    assert (run.status, run.stop_reason, run.attempts) == ("completed", "end_turn", 1)
    taken = session.events.get(seq=1)
    assert taken.processed_run_id == run.pk
    session.refresh_from_db()
    assert session.status == "idle"


def test_a_repeated_dedupe_key_returns_the_first_event_and_run(session):
    first = run_queue.accept(session.pk, message("once", "k1"))
    second = run_queue.accept(session.pk, message("twice", "k1"))

    assert (second.seq, second.event_id, second.run_id) == (first.seq, first.event_id, first.run_id)
    assert session.events.count() == 1
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_only_one_of_many_workers_claims_a_run(session):
    send(session)

    def claim_in_thread(_: int) -> bool:
        try:
            return run_queue.claim(session.pk, uuid4()) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        claims = list(pool.map(claim_in_thread, range(32)))

    assert claims.count(True) == 1


def test_finish_starts_the_next_message_in_the_same_commit(session):
    send(session, "one")
    second = send(session, "two")
    claim = run_queue.claim(session.pk, OWNER)

    following = run_queue.finish(claim, OWNER, events=[answer()]).next

    assert following
    assert following.run_id == second.run_id
    assert following.epoch == claim.epoch + 1


def test_a_higher_priority_goes_before_age(session):
    send(session, "first")
    urgent = send(session, "urgent", priority=5)

    assert run_queue.claim(session.pk, OWNER).run_id == urgent.run_id


def test_collected_messages_share_one_run(session):
    send(session, "running")
    claim = run_queue.claim(session.pk, OWNER)
    one = send(session, "a", on_busy="collect")
    two = send(session, "b", on_busy="collect")
    assert one.run_id == two.run_id

    following = run_queue.finish(claim, OWNER, events=[answer()]).next

    assert following.run_id == one.run_id
    taken = session.events.filter(processed_run_id=one.run_id)
    assert [e.payload["text"] for e in taken.order_by("seq")] == ["a", "b"]


def test_a_steered_message_joins_the_run_before_its_next_step(session):
    run_id = send(session).run_id
    claim = run_queue.claim(session.pk, OWNER)

    assert send(session, "also", on_busy="steer").run_id == run_id
    assert run_queue.step(claim) == 1
    assert run_queue.step(claim) == 0


def test_a_message_steered_at_the_last_moment_keeps_the_run_going(session):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    send(session, "wait, also this", on_busy="steer")

    assert run_queue.finish(claim, OWNER, events=[answer()]).goes_on
    assert not run_queue.finish(claim, OWNER, events=[answer()]).goes_on


def test_a_message_steered_into_a_failed_run_gets_its_own_run(session):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    steered = send(session, "do not lose me", on_busy="steer")

    following = run_queue.finish(
        claim, OWNER, outcome="failed", stop_reason="retries_exhausted"
    ).next

    assert following
    assert session.events.get(seq=steered.seq).processed_run_id == following.run_id


def test_on_busy_reject_refuses_a_message_and_writes_nothing(session):
    send(session)

    with pytest.raises(SessionBusy), transaction.atomic():
        send(session, "no", on_busy="reject")

    assert session.events.count() == 1


def test_an_ended_session_refuses_messages(session):
    Session.objects.filter(pk=session.pk).update(status="terminated")

    with pytest.raises(SessionEnded, match="accepts no more events"), transaction.atomic():
        send(session)


def test_an_expired_lease_fences_its_holder_and_requeues_the_run(session):
    send(session)
    stale = run_queue.claim(session.pk, OWNER)
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")

    assert recover_lanes().reaped == [session.pk]

    for write in (
        lambda: run_queue.step(stale),
        lambda: run_queue.finish(stale, OWNER, events=[answer()]),
        lambda: append_events(session.pk, [answer()], epoch=stale.epoch),
        lambda: run_queue.release(stale, reason="late"),
    ):
        with pytest.raises(StaleEpoch), transaction.atomic():
            write()
    fresh = run_queue.claim(session.pk, uuid4())
    assert fresh.run_id == stale.run_id
    assert fresh.epoch > stale.epoch
    assert not session.events.filter(type=E.AGENT_MESSAGE).exists()


def test_a_run_lost_again_and_again_is_dead_and_the_next_message_runs(session, settings):
    settings.RUN_MAX_ATTEMPTS = 3
    lost = send(session)
    other = send(session, "still here")
    for _ in range(3):
        run_queue.claim(session.pk, OWNER)
        Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
        run_queue.reap()

    assert Run.objects.get(pk=lost.run_id).status == "dead"
    assert newest(session, "session.error").payload["code"] == "run_dead"
    assert newest(session, "session.status_idle").payload["stop_reason"] == "retries_exhausted"
    assert run_queue.claim(session.pk, OWNER).run_id == other.run_id


def test_progress_resets_the_number_of_losses(session, settings):
    settings.RUN_MAX_ATTEMPTS = 2
    send(session)
    for _ in range(5):
        claim = run_queue.claim(session.pk, OWNER)
        append_events(session.pk, [answer()], epoch=claim.epoch, run_id=claim.run_id)
        Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
        run_queue.reap()

    assert Run.objects.get().status == "queued"


def test_a_released_run_is_due_again_only_after_its_delay(session):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    run_queue.release(claim, reason="provider", delay=3600)

    session.refresh_from_db()
    assert session.status == "rescheduling"
    assert run_queue.claim(session.pk, OWNER) is None
    Run.objects.update(not_before="2020-01-01T00:00:00Z")
    assert session.pk in recover_lanes().woken
    assert run_queue.claim(session.pk, OWNER)


def test_a_stop_ends_the_run_at_once_and_keeps_the_partial_answer(session):
    from sessions_app.models import Draft

    run_id = send(session).run_id
    claim = run_queue.claim(session.pk, OWNER)
    draft = uuid4()
    Draft.objects.create(
        session=session, event_id=draft, run_id=run_id, epoch=claim.epoch, text="Half an ans"
    )

    assert run_queue.stop(session.pk, note="enough").run_id == run_id

    said = newest(session, "agent.message")
    assert (said.pk, said.payload["text"], said.payload["interrupted"]) == (
        draft,
        "Half an ans",
        True,
    )
    assert newest(session, "session.status_idle").payload["stop_reason"] == "interrupted"
    assert Run.objects.get().status == "cancelled"
    with pytest.raises(StaleEpoch), transaction.atomic():
        run_queue.finish(claim, OWNER, events=[answer()])


def test_messages_that_wait_survive_a_stop(session):
    send(session)
    run_queue.claim(session.pk, OWNER)
    waiting = send(session, "next")

    run_queue.stop(session.pk)

    assert run_queue.claim(session.pk, OWNER).run_id == waiting.run_id


def test_stopping_an_idle_session_changes_nothing_but_the_log(session):
    assert run_queue.stop(session.pk).run_id is None

    assert types(session) == ["user.interrupt"]


def test_a_repeated_finish_is_refused(session):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)
    run_queue.finish(claim, OWNER, events=[answer()])

    with pytest.raises(StaleEpoch), transaction.atomic():
        run_queue.finish(claim, OWNER, events=[answer()])

    assert session.events.filter(type=E.AGENT_MESSAGE).count() == 1


def test_a_heartbeat_renews_only_what_this_owner_holds(session):
    send(session)
    claim = run_queue.claim(session.pk, OWNER)

    assert run_queue.heartbeat(OWNER, [session.pk]) == {session.pk: claim.epoch}
    assert run_queue.heartbeat(uuid4(), [session.pk]) == {}


def test_a_run_past_its_deadline_is_ended_despite_heartbeats(session):
    send(session)
    run_queue.claim(session.pk, OWNER)
    Run.objects.update(deadline="2020-01-01T00:00:00Z")

    assert recover_lanes().overdue == [session.pk]

    run = Run.objects.get()
    assert (run.status, run.error["code"], run.stop_reason) == ("failed", "deadline", "time_limit")
    session.refresh_from_db()
    assert session.status == "idle"


def test_a_lost_wake_up_is_repeated(session):
    send(session)
    Session.objects.update(active_at="2020-01-01T00:00:00Z")
    Run.objects.update(created_at="2020-01-01T00:00:00Z")

    assert recover_lanes().woken == [session.pk]
