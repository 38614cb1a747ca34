"""Schedules that fire while somebody changes them, and ones that cannot fire at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from agents.providers.base import ToolCall
from sessions_app.harness import execution
from sessions_app.models import Firing, Run, Schedule, ToolExecution
from sessions_app.schedules import schedules, timing
from tests.factories import schedule as make_schedule
from tests.sessions_app.approvals.test_approval_races import at_once
from tests.sessions_app.conftest import serve
from tests.sessions_app.spawning import agent
from tests.sessions_app.stage import WORDS, say
from tests.sessions_app.test_schedules import due

__all__ = ["agent"]

pytestmark = pytest.mark.django_db
MOMENT = 5.0


def past(seconds: int = 1):
    return timezone.now() - timedelta(seconds=seconds)


def test_a_time_that_was_asked_for_by_hand_is_not_sent_again_and_stops_no_other(session):
    poisoned, sound = due(session), due(session)
    Schedule.objects.filter(pk=poisoned.pk).update(next_at=past(60))
    poisoned.refresh_from_db()
    schedules.run_now(poisoned, poisoned.next_at)

    schedules.fire_due_schedules()

    assert Firing.objects.filter(schedule=sound, outcome="sent").exists()
    assert Firing.objects.filter(schedule=poisoned).count() == 1
    poisoned.refresh_from_db()
    assert poisoned.next_at > timezone.now()


def test_a_schedule_that_fails_in_an_unforeseen_way_holds_up_no_other(
    session, foreign_workspace, monkeypatch
):
    broken, sound = due(session), make_schedule(foreign_workspace)
    Schedule.objects.filter(pk=sound.pk).update(next_at=past())
    Schedule.objects.filter(pk=broken.pk).update(next_at=past(60))
    real = schedules.fire

    def fire(schedule: Schedule) -> Firing:
        if schedule.pk == broken.pk:
            raise KeyError("nobody thought of it")
        return real(schedule)

    monkeypatch.setattr(schedules, "fire", fire)

    assert schedules.fire_due_schedules() == 1
    assert Firing.objects.get().schedule_id == sound.pk


def test_a_schedule_whose_time_zone_is_gone_ends_and_says_so(session):
    made = due(session, kind="cron", interval_seconds=None, cron="0 9 * * *")
    Schedule.objects.update(timezone="US/Gone")

    schedules.fire_due_schedules()

    firing = Firing.objects.get()
    assert (firing.outcome, firing.run_id) == ("failed", None)
    assert "not a time zone" in firing.note
    made.refresh_from_db()
    assert made.next_at is None


def test_to_resume_what_has_fired_since_does_not_send_it_again(session):
    fields = {"kind": "once", "interval_seconds": None}
    made = due(session, next_at=timezone.now() + timedelta(hours=1), **fields)
    seen = Schedule.objects.get(pk=made.pk)
    assert schedules.fire_due_schedules() == 1

    timing.resume(seen)

    assert schedules.fire_due_schedules() == 0
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_agent_takes_a_wake_up_back_in_the_moment_it_fires(
    session, principal, script, monkeypatch
):
    made = due(session, asked_by=session)
    fired, fenced = threading.Event(), threading.Event()
    real_send, real_fence = schedules._send, execution._fence

    def send(*args):
        """The supervisor holds the schedule now, and the agent's call perhaps its session."""
        fired.set()
        fenced.wait(1.0)
        real_send(*args)

    def fence(turn):
        real_fence(turn)
        fenced.set()

    monkeypatch.setattr(schedules, "_send", send)
    monkeypatch.setattr(execution, "_fence", fence)
    cancel = ToolCall(call_id="c", name="schedule_cancel", arguments={"id": str(made.pk)})
    script([lambda: fired.wait(MOMENT), cancel], WORDS, WORDS)
    say(session, principal)

    with ThreadPoolExecutor(2) as pool:
        _, count = at_once([partial(serve, session.pk), schedules.fire_due_schedules], pool)

    assert count == 1
    assert ToolExecution.objects.get().state == "completed"
