"""What still holds a lane when all else has failed: one run in it, an end in time, nothing lost.

And who is rung at once, so that nobody has to wait until the supervisor looks.
"""

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


def lose_the_lane() -> None:
    Session.objects.update(lease_expires="2020-01-01T00:00:00Z")
    run_queue.reap()


def test_the_database_refuses_a_second_run_in_a_lane(session):
    send(session, "one")
    second = send(session, "two")
    run_queue.claim(session.pk, OWNER)

    with pytest.raises(IntegrityError, match="run_is_alone_in_its_lane"), transaction.atomic():
        Run.objects.filter(pk=second.run_id).update(status=Run.Status.RUNNING, epoch=1)


def test_a_claim_says_by_when_the_run_has_to_end(session, settings):
    settings.RUN_DEADLINE_SECONDS = 0
    send(session)
    run_queue.claim(session.pk, OWNER)

    assert recover_lanes().overdue == [session.pk]


def test_a_run_that_gets_on_a_little_and_is_always_lost_ends_too(session, settings):
    settings.RUN_MAX_ATTEMPTS = 1
    send(session)
    for _ in range(20):
        claim = run_queue.claim(session.pk, OWNER)
        append_events(session.pk, [answer()], epoch=claim.epoch, run_id=claim.run_id)
        lose_the_lane()

    assert Run.objects.get().status == "dead"
    assert newest(session, "session.error").payload["code"] == "run_dead"
    assert run_queue.claim(session.pk, OWNER) is None


def test_a_message_that_was_steered_into_a_dead_run_gets_a_run_of_its_own(session, settings):
    settings.RUN_MAX_ATTEMPTS = 1
    send(session)
    run_queue.claim(session.pk, OWNER)
    steered = send(session, "do not lose me", on_busy="steer")
    lose_the_lane()

    claim = run_queue.claim(session.pk, OWNER)

    assert claim.run_id != steered.run_id
    assert session.events.get(seq=steered.seq).processed_run_id == claim.run_id


def test_a_message_that_was_steered_into_a_run_that_is_stopped_gets_a_run_of_its_own(session):
    send(session)
    run_queue.claim(session.pk, OWNER)
    steered = send(session, "do not lose me", on_busy="steer")
    run_queue.stop(session.pk)

    claim = run_queue.claim(session.pk, OWNER)

    assert claim.run_id != steered.run_id
    assert session.events.get(seq=steered.seq).processed_run_id == claim.run_id


@pytest.mark.django_db(transaction=True)
def test_a_stop_rings_whoever_holds_the_lane_and_wakes_what_waits_behind_it(session):
    send(session, "one")
    run_queue.claim(session.pk, OWNER)
    send(session, "two")

    holders: SimpleQueue[str] = SimpleQueue()
    workers: SimpleQueue[str] = SimpleQueue()
    with subscribe(STOP_CHANNEL, holders.put), subscribe(WAKE_CHANNEL, workers.put):
        run_queue.stop(session.pk)

        assert holders.get(timeout=30) == workers.get(timeout=30) == str(session.pk)


@pytest.mark.django_db(transaction=True)
def test_a_message_and_a_run_that_is_given_back_wake_the_lane(session):
    workers: SimpleQueue[str] = SimpleQueue()
    with subscribe(WAKE_CHANNEL, workers.put):
        send(session)
        assert workers.get(timeout=30) == str(session.pk)

        run_queue.release(run_queue.claim(session.pk, OWNER), reason="shutdown")
        assert workers.get(timeout=30) == str(session.pk)
