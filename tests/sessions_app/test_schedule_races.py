"""Tests of schedules that change while they fire, and of schedules that cannot fire."""

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


def test_a_time_that_was_run_by_hand_is_not_sent_again_and_holds_up_no_other_schedule(session):
    poisoned, sound = due(session), due(session)
    Schedule.objects.filter(pk=poisoned.pk).update(next_at=past(60))
    poisoned.refresh_from_db()
    schedules.run_now(poisoned, poisoned.next_at)

    schedules.fire_due_schedules()

    assert Firing.objects.filter(schedule=sound, outcome="sent").exists()
    assert Firing.objects.filter(schedule=poisoned).count() == 1
    poisoned.refresh_from_db()
    assert poisoned.next_at > timezone.now()


def test_a_schedule_with_an_unexpected_error_holds_up_no_other(
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


def test_a_schedule_with_an_unknown_time_zone_ends_with_a_note(session):
    made = due(session, kind="cron", interval_seconds=None, cron="0 9 * * *")
    Schedule.objects.update(timezone="US/Gone")

    schedules.fire_due_schedules()

    firing = Firing.objects.get()
    assert (firing.outcome, firing.run_id) == ("failed", None)
    assert "not a time zone" in firing.note
    made.refresh_from_db()
    assert made.next_at is None


def test_resuming_a_schedule_that_has_fired_meanwhile_does_not_send_again(session):
    fields = {"kind": "once", "interval_seconds": None}
    made = due(session, next_at=timezone.now() + timedelta(hours=1), **fields)
    seen = Schedule.objects.get(pk=made.pk)
    assert schedules.fire_due_schedules() == 1

    timing.resume(seen)

    assert schedules.fire_due_schedules() == 0
    assert Run.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_agent_can_cancel_a_wake_up_while_it_fires(session, principal, script, monkeypatch):
    made = due(session, asked_by=session)
    fired, fenced = threading.Event(), threading.Event()
    real_send, real_fence = schedules._send, execution._fence

    def send(*args):
        """Send while the supervisor holds the schedule and the agent's call may hold its session."""
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
