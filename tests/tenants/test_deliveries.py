"""Tests of webhook deliveries: written with the event, owned by one attempt, erased when old."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from tenants.models import Webhook, WebhookDelivery
from tenants.notifications import deliveries
from tenants.notifications.deliveries import EndpointResponse
from tenants.notifications.webhooks import announce

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_rolled_back_announcement_is_never_sent(workspace, subscribe):
    subscribe()
    with transaction.atomic():
        announce(workspace.pk, "run.completed", {})
        transaction.set_rollback(True)

    assert not WebhookDelivery.objects.exists()


def test_a_late_response_to_a_lost_attempt_changes_nothing(workspace, subscribe):
    made = subscribe()
    announce(workspace.pk, "run.completed", {})
    lost = deliveries.claim(made.webhook.pk, lease=0)
    again = deliveries.claim(made.webhook.pk)
    assert lost is not None
    assert again is not None
    assert deliveries.claim(made.webhook.pk) is None
    gone = EndpointResponse(status=410, snippet="", duration_ms=1)
    deliveries.record(lost, gone)

    assert WebhookDelivery.objects.get().status == "pending"
    assert Webhook.objects.get().active


def test_old_deliveries_are_erased(workspace, subscribe, settings):
    subscribe()
    announce(workspace.pk, "run.completed", {"n": "old"})
    WebhookDelivery.objects.update(created_at=timezone.now() - timedelta(days=8))
    announce(workspace.pk, "run.completed", {"n": "new"})

    assert deliveries.forget_old_deliveries() == 1
    assert WebhookDelivery.objects.get().body["data"] == {"n": "new"}
    connection.close()
