"""Tests that a row deleted during a change is not found, fails no commit and does not reappear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from core.db import delete_row, lock_row
from core.exceptions import NotFound
from orchestrator import triggers
from orchestrator.models import TriggerFiring, WorkflowTrigger
from sessions_app.models import Firing, Schedule
from sessions_app.schedules import schedules, timing
from tenants import vault
from tenants.models import Secret, Webhook, WebhookDelivery
from tenants.notifications import webhooks
from tests.factories import make

#: The most seconds that a delete needs when it does not wait. A larger value weakens the test.
A_WHILE = 1.0


@contextmanager
def deleting(api: APIClient, path: str) -> Iterator[None]:
    """Delete the object at this path after the block and before its commit."""

    def delete() -> int:
        try:
            return api.delete(path).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            yield
            deleted = pool.submit(delete)
            wait([deleted], timeout=A_WHILE)
        assert deleted.result() == 204


@pytest.mark.django_db(transaction=True)
def test_an_event_is_written_while_its_webhook_is_deleted(api, workspace):
    url = "https://example.com/"
    made = webhooks.add_webhook(workspace_id=workspace.pk, url=url, events=["*"]).webhook

    with deleting(api, f"/api/v1/webhooks/{made.pk}/"):
        assert webhooks.announce(workspace.pk, "credits.low", {}) == 1

    assert not WebhookDelivery.objects.exists()
    assert not Webhook.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_is_being_sent_can_be_deleted(api, workspace):
    made = Schedule.objects.get(pk=make(Schedule, workspace).pk)

    with deleting(api, f"/api/v1/schedules/{made.pk}/"):
        schedules.run_now(made)

    assert not Schedule.objects.exists()
    assert not Firing.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_trigger_that_is_being_fired_can_be_deleted(api, workspace):
    made = WorkflowTrigger.objects.get(pk=make(WorkflowTrigger, workspace).pk)

    with deleting(api, f"/api/v1/triggers/{made.pk}/"):
        lock_row(made)
        TriggerFiring.objects.create(workspace=workspace, trigger=made, outcome="started")

    assert not WorkflowTrigger.objects.exists()
    assert not TriggerFiring.objects.exists()


CHANGES: dict[str, tuple[type[Schedule | WorkflowTrigger | Webhook | Secret], Callable]] = {
    "a schedule is paused": (Schedule, timing.pause),
    "a schedule is resumed": (Schedule, timing.resume),
    "a schedule is edited": (Schedule, lambda row: schedules.change_schedule(row, message="x")),
    "a trigger is paused": (WorkflowTrigger, timing.pause),
    "a trigger is resumed": (WorkflowTrigger, timing.resume),
    "a trigger is renamed": (WorkflowTrigger, lambda row: triggers.change_trigger(row, name="x")),
    "a trigger has a new secret": (WorkflowTrigger, triggers.rotate_secret),
    "a webhook is changed": (Webhook, lambda row: webhooks.change_webhook(row, active=False)),
    "a webhook has a new secret": (Webhook, webhooks.rotate_secret),
    "a webhook is pinged": (Webhook, webhooks.ping),
    "a secret has a new value": (Secret, lambda row: vault.replace(row, "another")),
    "a schedule is deleted": (Schedule, delete_row),
}


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES)
def test_changing_a_row_that_was_deleted_meanwhile_is_not_found(workspace, change):
    model, act = CHANGES[change]
    seen = model.objects.get(pk=make(model, workspace).pk)
    model.objects.all().delete()

    with pytest.raises(NotFound):
        act(seen)

    assert not model.objects.exists()
