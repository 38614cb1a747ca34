"""Tests of firing triggers: once, on time, and without holding up each other."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from orchestrator.models import TriggerFiring, Workflow, WorkflowTrigger
from orchestrator.supervisor import duties
from orchestrator.triggers import create_trigger, delete_old_firings, fire_due_triggers
from tests.orchestrator.canvas.test_runs import new_agent
from tests.orchestrator.conftest import make_due

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("flow")]


def test_a_due_trigger_starts_its_workflow_and_is_due_again_later(timed):
    at = make_due(timed)
    assert (fire_due_triggers(), fire_due_triggers()) == (1, 0)

    assert Workflow.objects.get().params == {"at": at.isoformat()}
    timed.refresh_from_db()
    assert timed.next_at > timezone.now()
    assert TriggerFiring.objects.get().outcome == "started"


@pytest.mark.django_db(transaction=True)
def test_two_supervisors_fire_a_trigger_once(timed):
    make_due(timed)
    ready = threading.Barrier(2)

    def supervise():
        ready.wait()
        fire_due_triggers()
        connection.close()

    both = [threading.Thread(target=supervise) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()

    assert Workflow.objects.count() == 1
    assert TriggerFiring.objects.count() == 1


def test_a_paused_trigger_is_not_fired(timed, api):
    make_due(timed)
    api.post(f"/api/v1/triggers/{timed.pk}/pause/")
    assert fire_due_triggers() == 0
    api.post(f"/api/v1/triggers/{timed.pk}/resume/")
    assert fire_due_triggers() == 0, "what was missed is not made up for"


def test_a_workflow_that_cannot_start_is_in_the_history_with_its_reason(workspace, owner):
    agent = new_agent(workspace, owner, "Walker")
    made = create_trigger(
        workspace_id=workspace.pk, name="C", kind="schedule", workflow="canvas", agent=agent,
        interval_seconds=60,
    )  # fmt: skip
    make_due(made.trigger)
    fire_due_triggers()

    firing = TriggerFiring.objects.get()
    assert (firing.outcome, "published" in firing.note) == ("failed", True)


def test_missed_times_are_counted_and_the_next_time_keeps_the_rhythm(workspace, owner):
    made = create_trigger(
        workspace_id=workspace.pk, created_by=owner, name="Often", kind="schedule",
        workflow="flow", interval_seconds=300, params={},
    ).trigger  # fmt: skip
    at = timezone.now() - timedelta(seconds=630)
    WorkflowTrigger.objects.filter(pk=made.pk).update(next_at=at)
    assert fire_due_triggers() == 1

    made.refresh_from_db()
    assert made.next_at == at + timedelta(seconds=900)
    assert TriggerFiring.objects.get().missed == 2


def test_a_failing_trigger_holds_up_no_other(timed, workspace, owner, define):
    """Any error of the workflow's own check counts; here it takes too few arguments."""
    define(lambda self, event, step: 1, name="broken", admit=staticmethod(dict))
    broken = create_trigger(
        workspace_id=workspace.pk, created_by=owner, name="Broken", kind="schedule",
        workflow="broken", cron="0 3 * * *", params={"at": "{{input.due_at}}"},
    ).trigger  # fmt: skip
    make_due(broken)
    make_due(timed)
    assert (fire_due_triggers(), fire_due_triggers()) == (2, 0)

    outcomes = dict(TriggerFiring.objects.values_list("trigger__name", "outcome"))
    assert outcomes == {"Broken": "failed", "Nightly": "started"}


def test_a_trigger_with_an_unknown_time_zone_ends_and_holds_up_no_other(timed, workspace, owner):
    lost = create_trigger(
        workspace_id=workspace.pk, created_by=owner, name="Lost", kind="schedule",
        workflow="flow", cron="0 3 * * *", params={},
    ).trigger  # fmt: skip
    WorkflowTrigger.objects.filter(pk=lost.pk).update(timezone="Atlantis/Gone")
    make_due(lost)
    make_due(timed)
    assert (fire_due_triggers(), fire_due_triggers()) == (2, 0)

    lost.refresh_from_db()
    assert lost.next_at is None
    told = dict(TriggerFiring.objects.values_list("trigger__name", "note"))
    assert "'Atlantis/Gone' is not a time zone" in told["Lost"]
    assert Workflow.objects.count() == 1


def test_old_firings_are_deleted(timed):
    make_due(timed)
    fire_due_triggers()
    TriggerFiring.objects.update(created_at=timezone.now() - timedelta(days=31))
    assert delete_old_firings() == 1


def test_the_supervisor_fires_and_cleans_up_triggers():
    works = [one.work for one in duties()]
    assert fire_due_triggers in works
    assert delete_old_firings in works
