"""Tests of the schedules page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.drafts import create_draft_agent
from sessions_app.models import Firing, Schedule
from sessions_app.schedules import schedules
from tests.conftest import add_member
from tests.factories import make

PAGE = "/schedules/"


def typed(agent, **changed: str) -> dict[str, str]:
    return {
        "name": "Morning report",
        "target": f"agent:{agent.pk}",
        "message": "Write the report.",
        "kind": "cron",
        "every": "1",
        "unit": "3600",
        "cron": "0 7 * * 1-5",
        "at": "",
        "timezone": "Europe/Zurich",
        **changed,
    }


def plan(agent, **fields) -> Schedule:
    return schedules.create_schedule(
        workspace_id=agent.workspace_id,
        name="Look",
        agent=agent,
        message="Look around.",
        **{"kind": "interval", "interval_seconds": 3600, **fields},
    )


def test_an_empty_list_explains_itself(browser_client, workspace):
    assert "No schedules yet" in browser_client.get(PAGE).text


def test_a_cron_schedule_is_described_in_plain_words(browser_client, agent):
    answer = browser_client.post(f"{PAGE}new/", typed(agent))
    made = Schedule.objects.get()
    page = browser_client.get(PAGE).text

    assert answer.headers["Location"] == f"{PAGE}{made.pk}/"
    assert made.next_at.astimezone(ZoneInfo("Europe/Zurich")).hour == 7
    assert "At 07:00 on Monday through Friday (Europe/Zurich)" in page
    assert "Tester" in page


def test_a_one_time_schedule_uses_the_chosen_time_zone(browser_client, agent):
    day = datetime.now(tz=UTC).date() + timedelta(days=2)
    form = typed(agent, kind="once", at=f"{day}T09:30", timezone="Asia/Tokyo")
    browser_client.post(f"{PAGE}new/", form)
    made = Schedule.objects.get()

    assert made.next_at == datetime(day.year, day.month, day.day, 0, 30, tzinfo=UTC)
    assert f'value="{day}T09:30"' in browser_client.get(f"{PAGE}{made.pk}/").text


def test_an_interval_uses_the_chosen_unit(browser_client, agent):
    browser_client.post(f"{PAGE}new/", typed(agent, kind="interval", every="15", unit="60"))

    assert Schedule.objects.get().interval_seconds == 900
    assert "Every 15 minutes" in browser_client.get(PAGE).text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "cron", "cron": "never"}, "is not a cron expression"),
        ({"kind": "cron", "cron": ""}, "This field is required."),
        ({"kind": "once", "at": "2001-01-01T00:00"}, "must be in the future"),
        ({"kind": "interval", "every": "400", "unit": "86400"}, "60 seconds to a year"),
        ({"timezone": "Moon/Base"}, "Select a valid choice"),
        ({"message": " "}, "required"),
    ],
)
def test_an_invalid_schedule_is_explained_and_not_saved(browser_client, agent, changed, said):
    answer = browser_client.post(f"{PAGE}new/", typed(agent, **changed))

    assert answer.status_code == 400
    assert said in answer.text
    assert not Schedule.objects.exists()


def test_an_agent_or_session_of_another_workspace_cannot_be_chosen(
    browser_client, agent, foreign_workspace
):
    for label, kind in (("agents.Agent", "agent"), ("sessions_app.Session", "session")):
        foreign = make(apps.get_model(label), foreign_workspace)
        form = typed(agent, target=f"{kind}:{foreign.pk}")
        assert browser_client.post(f"{PAGE}new/", form).status_code == 400
    assert not Schedule.objects.exists()


def test_an_agent_that_was_never_published_cannot_be_chosen(browser_client, agent, workspace):
    draft = create_draft_agent(workspace_id=workspace.pk, fields={"name": "Half done"})

    assert "Half done" not in browser_client.get(f"{PAGE}new/").text
    form = typed(agent, target=f"agent:{draft.pk}")
    assert browser_client.post(f"{PAGE}new/", form).status_code == 400
    assert not Schedule.objects.exists()


def test_the_preview_shows_the_description_and_the_next_three_times(browser_client, agent):
    asked = {"kind": "cron", "cron": "0 7 * * 1-5", "timezone": "Europe/Zurich"}
    page = browser_client.get(f"{PAGE}preview/", asked).text

    assert "At 07:00 on Monday through Friday (Europe/Zurich)" in page
    assert page.count("<time") == 3
    assert "is not a cron" in browser_client.get(f"{PAGE}preview/", {**asked, "cron": "x"}).text
    never = browser_client.get(f"{PAGE}preview/", {**asked, "cron": "0 0 31 2 *"}).text
    assert "<time" not in never


def test_the_preview_button_works_without_scripts_and_saves_nothing(browser_client, agent):
    page = browser_client.post(f"{PAGE}new/", {**typed(agent), "preview": "1"})

    assert page.status_code == 200
    assert "At 07:00 on Monday through Friday" in page.text
    assert not Schedule.objects.exists()


def test_renaming_a_schedule_does_not_move_its_next_time(browser_client, agent):
    one = plan(agent)
    form = typed(agent, kind="interval", every="1", unit="3600", timezone="UTC", name="Renamed")
    browser_client.post(f"{PAGE}{one.pk}/", form)
    after = Schedule.objects.get()

    assert (after.name, after.next_at) == ("Renamed", one.next_at)
    browser_client.post(f"{PAGE}{one.pk}/", {**form, "every": "2"})
    assert Schedule.objects.get().next_at > one.next_at


def test_a_schedule_is_paused_resumed_and_deleted(browser_client, agent):
    one = plan(agent)
    browser_client.post(f"{PAGE}{one.pk}/pause/")
    assert "Paused" in browser_client.get(PAGE).text

    browser_client.post(f"{PAGE}{one.pk}/resume/")
    one.refresh_from_db()
    assert one.paused_at is None

    browser_client.post(f"{PAGE}{one.pk}/delete/")
    assert not Schedule.objects.exists()


def test_two_clicks_on_run_now_send_once(browser_client, agent):
    one = plan(agent)
    asked = {"asked_at": timezone.now().isoformat()}
    for _ in range(2):
        assert browser_client.post(f"{PAGE}{one.pk}/run/", asked).status_code == 302
    firing = Firing.objects.get()
    page = browser_client.get(f"{PAGE}{one.pk}/").text

    assert firing.outcome == "sent"
    assert f"/chat/{firing.session_id}/" in page
    assert "run queued" in page


def test_a_viewer_can_read_but_not_change_schedules(workspace, agent):
    one, viewer = plan(agent), Client()
    viewer.force_login(add_member(workspace, "viewer"))

    assert viewer.get(f"{PAGE}{one.pk}/").status_code == 200
    for door in ("", "pause/", "resume/", "run/", "delete/"):
        assert viewer.post(f"{PAGE}{one.pk}/{door}").status_code == 403
    assert viewer.get(f"{PAGE}new/").status_code == 403


def test_more_rows_need_no_more_queries(browser_client, agent):
    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            assert browser_client.get(path).status_code == 200
        return len(seen)

    one = plan(agent)
    schedules.run_now(one)
    browser_client.get(PAGE)
    before = queries(PAGE), queries(f"{PAGE}{one.pk}/")
    for _ in range(4):
        schedules.run_now(plan(agent))
        schedules.run_now(one)

    assert (queries(PAGE), queries(f"{PAGE}{one.pk}/")) == before
