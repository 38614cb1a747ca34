"""Outgoing webhooks: who is told of what. `announce` tells them; `sender` does the sending."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_bytes
from typing import Any
from uuid import UUID

import orjson
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from config.faults import Invalid, NotFound
from tenants.ids import uuid7
from tenants.models import User, Webhook, WebhookDelivery, Workspace
from tenants.rows import hold
from tenants.webhook_input import checked_events, checked_url

CHANNEL = "switchyard_webhooks"
PREFIX = "whsec_"
SECRET_BYTES = 32
MOST_WEBHOOKS = 20
#: How long the secret before the last one signs too.
CHANGE_OVER = timedelta(hours=24)
PING = "webhook.ping"
ANNOUNCE = "SELECT webhook_announce(%s, %s::jsonb)"


@dataclass(frozen=True, kw_only=True)
class SecretWebhook:
    """A webhook with its new secret, to be shown once."""

    webhook: Webhook
    secret: str


def announce(workspace_id: UUID, type: str, data: dict[str, Any]) -> int:
    """Tell every endpoint that wants this type, with the caller's commit. Answers how many.

    Costs one look into an index when the workspace has no webhook.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            ANNOUNCE, [workspace_id, orjson.dumps([body_of(type, data)], default=str).decode()]
        )
        return int(cursor.fetchone()[0])


def body_of(type: str, data: dict[str, Any]) -> dict[str, Any]:
    """What is sent, in the shape that the standard proposes."""
    return {"type": type, "timestamp": moment(datetime.now(UTC)), "data": data}


def moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def new_secret() -> str:
    return PREFIX + b64encode(token_bytes(SECRET_BYTES)).decode()


@transaction.atomic
def add_webhook(
    *,
    workspace_id: UUID,
    url: str,
    events: Sequence[str],
    description: str = "",
    active: bool = True,
    created_by: User | None = None,
) -> SecretWebhook:
    url, wanted = checked_url(url), checked_events(events)
    # Two requests at once must not both be the last one allowed.
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
    if Webhook.objects.for_workspace(workspace_id).count() >= MOST_WEBHOOKS:
        raise Invalid(f"A workspace has at most {MOST_WEBHOOKS} webhooks. Remove one first.")
    secret = new_secret()
    webhook = Webhook.objects.create(
        workspace_id=workspace_id,
        url=url,
        events=wanted,
        description=description.strip()[:200],
        active=active,
        secret=secret,
        created_by=created_by,
    )
    webhook.refresh_from_db(fields=["created_at"])
    return SecretWebhook(webhook=webhook, secret=secret)


def find_webhook(workspace_id: UUID, webhook_id: UUID) -> Webhook:
    found = Webhook.objects.for_workspace(workspace_id).filter(pk=webhook_id).first()
    if found is None:
        raise NotFound
    return found


@transaction.atomic
def change_webhook(
    webhook: Webhook,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = None,
    active: bool | None = None,
) -> Webhook:
    """Change what is given. Switching on again starts with a clean record."""
    locked = hold(webhook)
    if url is not None:
        locked.url = checked_url(url)
    if events is not None:
        locked.events = checked_events(events)
    if description is not None:
        locked.description = description.strip()[:200]
    if active is not None and active != locked.active:
        _switch(locked, active=active)
    locked.save()
    return locked


def _switch(webhook: Webhook, *, active: bool) -> None:
    webhook.active = active
    webhook.disabled_reason = "" if active else "Switched off by a person."
    webhook.failures, webhook.failing_since, webhook.quiet_until = 0, None, None
    if not active:
        drop_pending(webhook.pk, "The webhook was switched off before this was sent.")


def drop_pending(webhook_id: UUID, reason: str) -> None:
    """What still waited is not sent by itself any more; each can be replayed."""
    waiting = WebhookDelivery.objects.filter(webhook=webhook_id, status="pending")
    waiting.update(
        status="failed", next_attempt_at=None, finished_at=Now(), response_snippet=reason
    )


def rotate_secret(webhook: Webhook) -> SecretWebhook:
    """A new secret. The old one signs too for a day, so that the receiver can change over."""
    with transaction.atomic():
        locked = hold(webhook)
        locked.old_secret, locked.old_secret_until = locked.secret, timezone.now() + CHANGE_OVER
        locked.secret = new_secret()
        locked.save(update_fields=["secret", "old_secret", "old_secret_until"])
    return SecretWebhook(webhook=locked, secret=locked.secret)


def ping(webhook: Webhook) -> WebhookDelivery:
    """Send a test event to this endpoint alone."""
    if not webhook.active:
        raise Invalid("This webhook is switched off. Enable it again first.")
    with transaction.atomic():
        hold(webhook)
        delivery = WebhookDelivery.objects.create(
            id=uuid7(),
            workspace_id=webhook.workspace_id,
            webhook=webhook,
            type=PING,
            body=body_of(PING, {"webhook_id": str(webhook.pk), "message": "It works."}),
            next_attempt_at=Now(),
        )
        _ring(webhook.pk)
    delivery.refresh_from_db()
    return delivery


def replay(delivery: WebhookDelivery) -> WebhookDelivery:
    """Send a delivery again, with the same id, starting a new series of attempts.

    One that is on its way is only hurried: two clicks send it once.
    """
    with transaction.atomic():
        webhook = hold(Webhook(pk=delivery.webhook_id))
        locked = hold(delivery)
        if not webhook.active:
            raise Invalid("This webhook is switched off. Enable it again first.")
        under_way = locked.lease_until is not None and locked.lease_until > timezone.now()
        if not under_way:
            locked.status, locked.attempts = WebhookDelivery.Status.PENDING, 0
            locked.next_attempt_at, locked.finished_at = timezone.now(), None
            locked.save(update_fields=["status", "attempts", "next_attempt_at", "finished_at"])
        _ring(locked.webhook_id)
    return locked


def _ring(webhook_id: UUID) -> None:
    """A person waits for this one: an endpoint that was left alone for a while is tried at once."""
    Webhook.objects.filter(pk=webhook_id).exclude(quiet_until=None).update(quiet_until=None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(webhook_id)])
