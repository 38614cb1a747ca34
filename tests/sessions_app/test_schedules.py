"""Tests of schedules: they fire on time, once, within limits, and cost nothing without work."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connections
from django.utils import timezone

from agents.providers.base import ToolCall
from core.exceptions import Conflict, Invalid
from memory.documents import write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, person
from sessions_app.models import Firing, Run, Schedule
from sessions_app.schedules import schedules, timing
from sessions_app.schedules.timing import advance, next_time
from tenants.billing.credits import add_credits
from tests.factories import schedule as make_schedule
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, E, say

pytestmark = pytest.mark.django_db


def due(session, **fields) -> Schedule:
    made = schedules.create_schedule(
        workspace_id=session.workspace_id,
        name="Look",
        agent=session.agent,
        session=session,
        message="Look around.",
        **{"kind": "interval", "interval_seconds": 60, **fields},
    )
    Schedule.objects.filter(pk=made.pk).update(next_at=timezone.now() - timedelta(seconds=1))
    return made


def test_a_due_schedule_is_sent_once_and_is_due_again_later(session, script):
    script(WORDS)
    made = due(session)
    assert schedules.fire_due_schedules() == 1
    assert schedules.fire_due_schedules() == 0
    made.refresh_from_db()
    assert made.next_at > timezone.now()
    serve(session.pk)
    assert newest(session, E.USER_MESSAGE).payload["schedule_id"] == str(made.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."
    assert Firing.objects.get().outcome == "sent"


def test_a_one_time_schedule_fires_once(session):
    made = due(
        session,
        kind="once",
        interval_seconds=None,
        next_at=timezone.now() + timedelta(hours=1),
    )
    assert schedules.fire_due_schedules() == 1
    made.refresh_from_db()
    assert made.next_at is None


def test_missed_times_are_counted_but_not_made_up(session):
    made = due(session)
    Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=630))
    assert schedules.fire_due_schedules() == 1
    assert Firing.objects.get().missed == 10
    made.refresh_from_db()
    assert made.next_at > timezone.now()
    assert Run.objects.count() == 1


def test_cron_follows_local_time_through_daylight_saving():
    made = Schedule(kind="cron", cron="0 9 * * *", timezone="Europe/Zurich")
    before = datetime(2026, 10, 24, 7, 30, tzinfo=UTC)  # 09:30 in summer time
    following = next_time(made, before)
    assert following == datetime(2026, 10, 25, 8, 0, tzinfo=UTC)  # 09:00 in winter time
    made.next_at = datetime(2026, 10, 20, 7, 0, tzinfo=UTC)
    assert advance(made, before) == (following, 4)


def test_a_paused_schedule_sends_nothing_and_goes_on_from_now(session):
    made = due(session)
    made.refresh_from_db()
    timing.pause(made)
    assert schedules.fire_due_schedules() == 0
    timing.resume(made)
    assert schedules.fire_due_schedules() == 0
    assert made.next_at > timezone.now()


def test_a_heartbeat_with_nothing_to_do_costs_nothing(session, agent):
    due(session, heartbeat=True)
    assert schedules.fire_due_schedules() == 1
    assert Firing.objects.get().outcome == "nothing_to_do"
    assert session.events.count() == Run.objects.count() == 0


def test_a_heartbeat_wakes_the_agent_when_its_list_has_entries(session, agent, owner):
    write_entry(
        owner=Owner(
            workspace_id=agent.workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=agent.pk
        ),
        path="HEARTBEAT.md",
        content="# To look after\n\n- the backups",
        author=person(owner.pk),
    )
    due(session, heartbeat=True)
    schedules.fire_due_schedules()
    assert Firing.objects.get().outcome == "sent"


def test_without_a_session_each_firing_has_one_of_its_own(session, agent):
    due(session)
    Schedule.objects.update(session=None)
    schedules.fire_due_schedules()
    fired = Firing.objects.get()
    assert fired.session_id not in (None, session.pk)


def test_a_firing_without_credits_is_recorded_as_failed(session, workspace):
    made = due(session)
    add_credits(workspace.pk, Decimal(-10), kind="adjustment")
    assert schedules.fire_due_schedules() == 1
    fired = Firing.objects.get()
    assert (fired.outcome, "credits" in fired.note) == ("failed", True)
    made.refresh_from_db()
    assert made.next_at > timezone.now()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "interval", "interval_seconds": 5},
        {"kind": "interval"},
        {"kind": "cron", "cron": "every day"},
        {"kind": "cron", "cron": "* * * * * *"},
        {"kind": "once"},
        {"kind": "once", "next_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"kind": "cron", "cron": "0 9 * * *", "timezone": "Mars/Olympus"},
        {"kind": "sometimes"},
        {"kind": "interval", "interval_seconds": 60, "message": " "},
    ],
)
def test_an_invalid_schedule_is_refused(session, fields):
    with pytest.raises(Invalid):
        schedules.create_schedule(
            workspace_id=session.workspace_id,
            name="x",
            agent=session.agent,
            **{"message": "Look.", **fields},
        )


def test_the_number_of_wake_ups_of_a_session_is_limited(session):
    for _ in range(3):
        due(session, asked_by=session)
    with pytest.raises(Conflict, match="at most 3"):
        due(session, asked_by=session)


@pytest.mark.django_db(transaction=True)
def test_two_supervisors_fire_each_time_once(session):
    for _ in range(5):
        due(session)

    def look() -> None:
        schedules.fire_due_schedules()
        connections.close_all()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Firing.objects.count() == Run.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_an_agent_schedules_and_cancels_a_wake_up(agent, session, principal, script):
    from tools_app import save_tool_policy

    save_tool_policy(agent.pk, {"profile": "full"})
    wish = {"message": "Look again.", "in_seconds": 600}
    script([ToolCall(call_id="a", name="schedule_wake", arguments=wish)], WORDS)
    say(session, principal)
    serve(session.pk)
    made = Schedule.objects.get()
    assert (made.session_id, made.asked_by_id, made.kind) == (session.pk, session.pk, "once")

    cancel = {"id": str(made.pk)}
    script([ToolCall(call_id="b", name="schedule_cancel", arguments=cancel)], WORDS)
    say(session, principal)
    serve(session.pk)
    made.refresh_from_db()
    assert made.next_at is None


def test_a_schedule_is_created_changed_run_and_deleted_over_rest(api, session):
    body = {
        "name": "Daily",
        "session": str(session.pk),
        "message": "Good morning.",
        "kind": "cron",
        "cron": "0 9 * * 1-5",
        "timezone": "Europe/Zurich",
    }
    made = api.post("/api/v1/schedules/", body, format="json")
    assert made.status_code == 201, made.content
    url = f"/api/v1/schedules/{made.json()['id']}/"
    assert api.patch(url, {"cron": "nine"}, format="json").status_code == 400
    assert api.patch(url, {"cron": "0 10 * * *"}, format="json").json()["cron"] == "0 10 * * *"
    assert api.post(f"{url}run/").json()["outcome"] == "sent"
    assert api.post(f"{url}pause/").json()["paused_at"]
    assert api.post(f"{url}resume/").json()["paused_at"] is None
    assert len(api.get(f"{url}firings/").json()["results"]) == 1
    assert api.delete(url).status_code == 204


def test_changing_the_message_over_rest_does_not_move_the_next_time(api, session):
    made = due(session)
    before = Schedule.objects.get(pk=made.pk).next_at
    changed = api.patch(f"/api/v1/schedules/{made.pk}/", {"message": "Else."}, format="json")

    assert changed.status_code == 200
    made.refresh_from_db()
    assert (made.message, made.next_at) == ("Else.", before)


def test_a_schedule_that_is_given_a_session_takes_over_its_agent(api, session, workspace):
    made = make_schedule(workspace)
    changed = api.patch(
        f"/api/v1/schedules/{made.pk}/", {"session": str(session.pk)}, format="json"
    )

    assert changed.json()["agent"] == str(session.agent_id)


def test_a_schedule_for_a_foreign_agent_is_refused(api, foreign_workspace):
    foreign = make_schedule(foreign_workspace)
    body = {"name": "x", "agent": str(foreign.agent_id), "message": "x", "kind": "interval"}
    answer = api.post("/api/v1/schedules/", {**body, "interval_seconds": 60}, format="json")
    assert answer.status_code == 400


def test_resuming_an_active_schedule_does_not_delay_it(session):
    made = due(session)
    Schedule.objects.update(next_at=timezone.now() + timedelta(seconds=5))
    made.refresh_from_db()
    due_at = made.next_at

    timing.resume(made)

    assert made.next_at == due_at
