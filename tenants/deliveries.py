"""Deliveries of webhooks: claimed under a lease, their outcomes written, forgotten when old.

A claim counts the attempt and pushes the due time behind the lease, so that nobody else sends the same
delivery meanwhile, and somebody does when its sender was killed. An outcome that comes after the lease
was taken over is not written.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from tenants.models import Webhook, WebhookDelivery
from tenants.posting import Answer
from tenants.webhook_notice import tell_switched_off
from tenants.webhooks import drop_pending

#: Longer than any attempt can take.
LEASE_SECONDS = 90.0
#: Seconds before the attempts after the first: about a day in all.
RETRIES = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 36_000)
JITTER = 0.2
#: An endpoint that fails is left alone for a while, whatever waits for it.
LONGEST_QUIET = 60.0
LONGEST_RETRY_AFTER = 86_400.0
#: Besides the time, an endpoint must have failed this often before it is given up.
LEAST_FAILURES = 10
GONE = 410
AT_ONCE = 5_000

CLAIM = """
UPDATE webhook_deliveries d
   SET attempts = d.attempts + 1, attempted_at = clock_timestamp(),
       lease_until = clock_timestamp() + make_interval(secs => %s),
       next_attempt_at = clock_timestamp() + make_interval(secs => %s)
 WHERE d.id = (
   SELECT p.id FROM webhook_deliveries p JOIN webhooks w ON w.id = p.webhook_id
    WHERE p.webhook_id = %s AND p.status = 'pending' AND p.next_attempt_at <= clock_timestamp()
      AND w.active AND (w.quiet_until IS NULL OR w.quiet_until <= clock_timestamp())
    ORDER BY p.next_attempt_at, p.id LIMIT 1 FOR UPDATE OF p SKIP LOCKED)
RETURNING d.id, d.attempts, d.attempted_at, d.body::text
"""
#: One look into an index per active endpoint, however long the queues are.
DUE = """
SELECT w.id FROM webhooks w
 WHERE w.active AND (w.quiet_until IS NULL OR w.quiet_until <= clock_timestamp())
   AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.webhook_id = w.id
                 AND d.status = 'pending' AND d.next_attempt_at <= clock_timestamp())
"""
FORGET = """
DELETE FROM webhook_deliveries WHERE id IN (
  SELECT id FROM webhook_deliveries WHERE created_at < %s ORDER BY created_at LIMIT %s)
"""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One attempt in the hands of one sender."""

    delivery_id: UUID
    webhook: Webhook
    attempt: int
    began: datetime
    #: Exactly what is signed and sent, the same at every attempt.
    body: str


def due_webhooks() -> list[UUID]:
    """Endpoints with something to send now."""
    with connection.cursor() as cursor:
        cursor.execute(DUE)
        return [webhook_id for (webhook_id,) in cursor.fetchall()]


def claim(webhook_id: UUID, *, lease: float = LEASE_SECONDS) -> Claim | None:
    """Take the delivery that has been due longest, for `lease` seconds."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [lease, lease, webhook_id])
        row = cursor.fetchone()
    webhook = Webhook.objects.filter(pk=webhook_id).first() if row else None
    if row is None or webhook is None:
        return None
    delivery_id, attempt, began, body = row
    return Claim(delivery_id=delivery_id, webhook=webhook, attempt=attempt, began=began, body=body)


@transaction.atomic
def record(claim: Claim, answer: Answer) -> None:
    """Write what became of an attempt, unless somebody else has taken the delivery over.

    Whoever locks an endpoint and its deliveries locks the endpoint first.
    """
    webhook = None
    if claim.webhook.failures or not answer.is_delivered:
        rows = Webhook.objects.select_for_update(no_key=True)
        webhook = rows.filter(pk=claim.webhook.pk).first()
    written = _write(claim, answer, may_retry=webhook is not None and webhook.active)
    if webhook and written:
        _count(webhook, answer)


def _write(claim: Claim, answer: Answer, *, may_retry: bool) -> bool:
    mine = WebhookDelivery.objects.filter(
        pk=claim.delivery_id, attempted_at=claim.began, status="pending"
    )
    outcome = {
        "duration_ms": answer.duration_ms,
        "response_status": answer.status,
        "response_snippet": answer.snippet,
        "lease_until": None,
    }
    delay = None
    if may_retry and not answer.is_delivered and answer.status != GONE:
        delay = delay_after(claim.attempt, answer.retry_after)
    if delay is not None:
        due = timezone.now() + timedelta(seconds=delay)
        return bool(mine.update(**outcome, next_attempt_at=due))
    status = "delivered" if answer.is_delivered else "failed"
    return bool(mine.update(**outcome, status=status, next_attempt_at=None, finished_at=Now()))


def delay_after(attempt: int, retry_after: float | None) -> float | None:
    """Seconds until the next attempt; None when there is none."""
    if attempt > len(RETRIES):
        return None
    usual = RETRIES[attempt - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
    return max(usual, min(retry_after or 0.0, LONGEST_RETRY_AFTER))


def _count(webhook: Webhook, answer: Answer) -> None:
    """Keep the endpoint's record, and switch it off when it is gone or dead for days."""
    now = timezone.now()
    if answer.is_delivered:
        webhook.failures, webhook.failing_since, webhook.quiet_until = 0, None, None
        webhook.save(update_fields=["failures", "failing_since", "quiet_until"])
        return
    webhook.failures += 1
    webhook.failing_since = webhook.failing_since or now
    quiet = min(2.0 ** min(webhook.failures, 10), LONGEST_QUIET)
    asked = min(answer.retry_after or 0.0, LONGEST_RETRY_AFTER)
    webhook.quiet_until = now + timedelta(seconds=max(quiet, asked))
    reason = _reason_to_give_up(webhook, answer) if webhook.active else ""
    if reason:
        webhook.active, webhook.disabled_reason = False, reason
        drop_pending(webhook.pk, "The webhook was switched off before this was sent.")
    webhook.save()
    if reason:
        # Only now: the notice is an event too, and this endpoint is to get no more.
        tell_switched_off(webhook)


def _reason_to_give_up(webhook: Webhook, answer: Answer) -> str:
    if answer.status == GONE:
        return "The endpoint answered 410 Gone: it wants no more."
    since = webhook.failing_since or timezone.now()
    patience = timedelta(days=settings.WEBHOOK_GIVE_UP_DAYS)
    if webhook.failures >= LEAST_FAILURES and timezone.now() - since > patience:
        return f"Every attempt failed since {since:%d %B %Y, %H:%M} UTC."
    return ""


def forget_old_deliveries() -> int:
    """Erase deliveries that are older than they are kept for, a bounded number at a time."""
    before = timezone.now() - timedelta(days=settings.WEBHOOK_KEEP_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(FORGET, [before, AT_ONCE])
        return cursor.rowcount
