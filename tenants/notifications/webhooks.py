"""Outgoing webhooks: their settings, and the queue of deliveries that `sender` sends."""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from secrets import token_bytes
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from core.db import lock_row
from core.exceptions import Invalid
from core.http import check_host
from core.ids import uuid7
from tenants.models import User, Webhook, WebhookDelivery
from tenants.quotas import WEBHOOKS, check_quota

#: The event types to choose from, by part of the product. Later apps announce most of them.
TYPES: dict[str, tuple[str, ...]] = {
    "Messages": ("user.message", "user.message_edited", "user.message_withdrawn", "agent.message"),
    "Tools": (
        "agent.tool_use",
        "agent.custom_tool_use",
        "agent.tool_result",
        "user.tool_confirmation",
        "user.custom_tool_result",
    ),
    "Sessions": (
        "session.status_changed",
        "session.status_idle",
        "session.context_compacted",
        "session.compaction_undone",
        "session.child_created",
        "session.child_idle",
        "session.error",
        "session.resource_attached",
        "session.outcome_judged",
        "session.terminal_opened",
        "session.context_noted",
        "agent.thinking",
        "user.interrupt",
    ),
    "Runs": ("run.completed", "run.failed", "run.cancelled"),
    "People": ("approval.created", "approval.resolved", "inbox.message"),
    "Workflows": ("workflow.*",),
    "Money": ("credits.low",),
}
MOST_EVENTS = 40
LONGEST_URL = 2000
_GLOB = re.compile(r"[a-z0-9_.*]{1,80}")
_LOCAL = ("localhost", ".localhost", ".local", ".internal")


def checked_events(events: Sequence[str]) -> list[str]:
    """Return the patterns of event types, each once. Raise Invalid if one matches no type."""
    patterns = list(dict.fromkeys(text.strip() for text in events if text.strip()))
    if not patterns:
        raise Invalid("Choose at least one event type, or * for all of them.")
    if len(patterns) > MOST_EVENTS:
        raise Invalid(f"A webhook has at most {MOST_EVENTS} event types. Use * for all of them.")
    for pattern in patterns:
        if not _GLOB.fullmatch(pattern):
            raise Invalid(
                f"{pattern[:80]!r} is not an event type. Write one like run.failed or session.*."
            )
        if not _matches_any(pattern):
            known = ", ".join(sorted({name for names in TYPES.values() for name in names}))
            raise Invalid(f"There is no event type {pattern!r}. The types are: {known}.")
    return patterns


def _matches_any(glob: str) -> bool:
    """Return whether a pattern matches a known type, which may be a pattern itself."""
    types = (name for names in TYPES.values() for name in names)
    return any(fnmatchcase(name, glob) or fnmatchcase(glob, name) for name in types)


def checked_url(url: str) -> str:
    """Return the URL if it is http(s) and not obviously private. Its host is resolved when sending."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("This is not a URL.") from None
    if parts.scheme not in {"http", "https"} or not host or len(url) > LONGEST_URL:
        raise Invalid("Enter a URL that starts with https://.")
    if parts.username is not None or parts.fragment or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise Invalid("The URL must not contain a user name, a fragment or white space.")
    _check_not_private(host, port or (443 if parts.scheme == "https" else 80))
    return url


def _check_not_private(host: str, port: int) -> None:
    """Raise EgressRefused for a private address or local name. It makes no DNS request."""
    if host.lower() == _LOCAL[0] or host.lower().endswith(_LOCAL[1:]):
        check_host(host, port, lambda *_: ["127.0.0.1"], purpose="webhooks")
        return
    try:
        entries = socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    addresses = [str(entry[4][0]) for entry in entries]
    check_host(host, port, lambda *_: addresses, purpose="webhooks")


CHANNEL = "switchyard_webhooks"
PREFIX = "whsec_"
SECRET_BYTES = 32
#: How long the previous secret also signs.
CHANGE_OVER = timedelta(hours=24)
PING = "webhook.ping"
ANNOUNCE = "SELECT webhook_announce(%s, %s::jsonb)"


@dataclass(frozen=True, kw_only=True)
class SecretWebhook:
    """A webhook with its new secret, which is shown once."""

    webhook: Webhook
    secret: str


def announce(workspace_id: UUID, type: str, data: dict[str, Any]) -> int:
    """Queue an event for every webhook that wants its type, and return how many.

    The deliveries are part of the caller's transaction. Without webhooks this is one index lookup.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            ANNOUNCE, [workspace_id, orjson.dumps([body_of(type, data)], default=str).decode()]
        )
        return int(cursor.fetchone()[0])


def body_of(type: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a delivery, as Standard Webhooks proposes it."""
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
    url, patterns = checked_url(url), checked_events(events)
    check_quota(workspace_id, WEBHOOKS, Webhook.objects.for_workspace(workspace_id))
    secret = new_secret()
    webhook = Webhook.objects.create(
        workspace_id=workspace_id,
        url=url,
        events=patterns,
        description=description.strip()[:200],
        active=active,
        secret=secret,
        created_by=created_by,
    )
    webhook.refresh_from_db(fields=["created_at"])
    return SecretWebhook(webhook=webhook, secret=secret)


def find_webhook(workspace_id: UUID, webhook_id: UUID) -> Webhook:
    return Webhook.objects.for_workspace(workspace_id).find(pk=webhook_id)


@transaction.atomic
def change_webhook(
    webhook: Webhook,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = None,
    active: bool | None = None,
) -> Webhook:
    """Change the given fields. Enabling a webhook again resets its failures."""
    locked = lock_row(webhook)
    if url is not None:
        locked.url = checked_url(url)
    if events is not None:
        locked.events = checked_events(events)
    if description is not None:
        locked.description = description.strip()[:200]
    if active is not None and active != locked.active:
        _set_active(locked, active=active)
    locked.save()
    return locked


def _set_active(webhook: Webhook, *, active: bool) -> None:
    webhook.active = active
    webhook.disabled_reason = "" if active else "Disabled by a member."
    webhook.failures, webhook.failing_since, webhook.quiet_until = 0, None, None
    if not active:
        drop_pending(webhook.pk, "The webhook was disabled before this was sent.")


def drop_pending(webhook_id: UUID, reason: str) -> None:
    """Mark the pending deliveries of a webhook as failed. Each can still be replayed."""
    pending = WebhookDelivery.objects.filter(webhook=webhook_id, status="pending")
    pending.update(
        status="failed", next_attempt_at=None, finished_at=Now(), response_snippet=reason
    )


def rotate_secret(webhook: Webhook) -> SecretWebhook:
    """Create a new secret. The old one also signs for a day, so that the receiver can change."""
    with transaction.atomic():
        locked = lock_row(webhook)
        locked.old_secret, locked.old_secret_until = locked.secret, timezone.now() + CHANGE_OVER
        locked.secret = new_secret()
        locked.save(update_fields=["secret", "old_secret", "old_secret_until"])
    return SecretWebhook(webhook=locked, secret=locked.secret)


def ping(webhook: Webhook) -> WebhookDelivery:
    """Send a test event to this endpoint alone."""
    if not webhook.active:
        raise Invalid("This webhook is disabled. Enable it first.")
    with transaction.atomic():
        lock_row(webhook)
        delivery = WebhookDelivery.objects.create(
            id=uuid7(),
            workspace_id=webhook.workspace_id,
            webhook=webhook,
            type=PING,
            body=body_of(PING, {"webhook_id": str(webhook.pk), "message": "It works."}),
            next_attempt_at=Now(),
        )
        _notify_sender(webhook.pk)
    delivery.refresh_from_db()
    return delivery


def replay(delivery: WebhookDelivery) -> WebhookDelivery:
    """Send a delivery again, with the same id, starting a new series of attempts.

    A delivery that is being sent is not restarted, so two clicks send it once.
    """
    with transaction.atomic():
        webhook = lock_row(Webhook(pk=delivery.webhook_id))
        locked = lock_row(delivery)
        if not webhook.active:
            raise Invalid("This webhook is disabled. Enable it first.")
        is_sending = locked.lease_until is not None and locked.lease_until > timezone.now()
        if not is_sending:
            locked.status, locked.attempts = WebhookDelivery.Status.PENDING, 0
            locked.next_attempt_at, locked.finished_at = timezone.now(), None
            locked.save(update_fields=["status", "attempts", "next_attempt_at", "finished_at"])
        _notify_sender(locked.webhook_id)
    return locked


def _notify_sender(webhook_id: UUID) -> None:
    """Wake the sender and end a pause of the endpoint, because a person is waiting."""
    Webhook.objects.filter(pk=webhook_id).exclude(quiet_until=None).update(quiet_until=None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(webhook_id)])
