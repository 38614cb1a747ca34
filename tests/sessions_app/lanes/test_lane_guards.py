"""Tests of a lane's guards: one run at a time, a deadline, no lost message, prompt wake-ups."""

from __future__ import annotations

from queue import SimpleQueue

import pytest
from django.db import IntegrityError, transaction

from core.pg_listen import subscribe
from sessions_app.lanes import run_queue
from sessions_app.lanes.host import STOP_CHANNEL
from sessions_app.lanes.recovery import recover_lanes
from sessions_app.lanes.signals import WAKE_CHANNEL
from sessions_app.log.writer import append_events
from sessions_app.models import Run, Session
from tests.sessions_app.conftest import OWNER, newest
from tests.sessions_app.lanes.test_run_queue import answer, send

pytestmark = pytest.mark.django_db


def expire_lease() -> None:
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    run_queue.reap()


def test_the_database_refuses_a_second_run_in_a_lane(session):
    send(session, "one")
    second = send(session, "two")
    run_queue.claim(session.pk, OWNER)

    with pytest.raises(IntegrityError, match="run_is_alone_in_its_lane"), transaction.atomic():
        Run.objects.filter(pk=second.run_id).update(status=Run.Status.RUNNING, epoch=1)


def test_a_claim_sets_the_deadline_of_the_run(session, settings):
    settings.RUN_DEADLINE_SECONDS = 0
    send(session)
    run_queue.claim(session.pk, OWNER)

    assert recover_lanes().overdue == [session.pk]


def test_a_run_that_is_lost_again_and_again_ends_despite_progress(session, settings):
    settings.RUN_MAX_ATTEMPTS = 1
    send(session)
    for _ in range(20):
        claim = run_queue.claim(session.pk, OWNER)
        append_events(session.pk, [answer()], epoch=claim.epoch, run_id=claim.run_id)
        expire_lease()

    assert Run.objects.get().status == "dead"
    assert newest(session, "session.error").payload["code"] == "run_dead"
    assert run_queue.claim(session.pk, OWNER) is None


def test_a_message_steered_into_a_dead_run_gets_its_own_run(session, settings):
    settings.RUN_MAX_ATTEMPTS = 1
    send(session)
    run_queue.claim(session.pk, OWNER)
    steered = send(session, "do not lose me", on_busy="steer")
    expire_lease()

    claim = run_queue.claim(session.pk, OWNER)

    assert claim.run_id != steered.run_id
    assert session.events.get(seq=steered.seq).processed_run_id == claim.run_id


def test_a_message_steered_into_a_stopped_run_gets_its_own_run(session):
    send(session)
    run_queue.claim(session.pk, OWNER)
    steered = send(session, "do not lose me", on_busy="steer")
    run_queue.stop(session.pk)

    claim = run_queue.claim(session.pk, OWNER)

    assert claim.run_id != steered.run_id
    assert session.events.get(seq=steered.seq).processed_run_id == claim.run_id


@pytest.mark.django_db(transaction=True)
def test_a_stop_notifies_the_holder_of_the_lane_and_wakes_the_next_run(session):
    send(session, "one")
    run_queue.claim(session.pk, OWNER)
    send(session, "two")

    holders: SimpleQueue[str] = SimpleQueue()
    workers: SimpleQueue[str] = SimpleQueue()
    with subscribe(STOP_CHANNEL, holders.put), subscribe(WAKE_CHANNEL, workers.put):
        run_queue.stop(session.pk)

        assert holders.get(timeout=30) == workers.get(timeout=30) == str(session.pk)


@pytest.mark.django_db(transaction=True)
def test_a_message_and_a_released_run_wake_the_lane(session):
    workers: SimpleQueue[str] = SimpleQueue()
    with subscribe(WAKE_CHANNEL, workers.put):
        send(session)
        assert workers.get(timeout=30) == str(session.pk)

        run_queue.release(run_queue.claim(session.pk, OWNER), reason="shutdown")
        assert workers.get(timeout=30) == str(session.pk)
