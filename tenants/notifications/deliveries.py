"""Webhook deliveries: claiming under a lease, sending, recording the outcome, and cleanup.

A claim counts the attempt and moves the due time behind the lease. No other sender takes the
delivery until then, and another one does if its sender was killed. An outcome that arrives after
another sender took over is not written. Any number of senders may run.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from uuid import UUID

import httpx2
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone
from standardwebhooks import Webhook as Signer

from core.exceptions import EgressRefused
from core.http import Resolver, guarded_client, retry_after
from core.pg_listen import subscribe
from tenants.models import Webhook, WebhookDelivery
from tenants.notifications.inbox import tell_switched_off
from tenants.notifications.webhooks import CHANNEL, drop_pending

log = structlog.get_logger(__name__)

SECONDS = 15.0
LARGEST_SNIPPET = 1_000
USER_AGENT = "Switchyard-Webhooks/1"


@dataclass(frozen=True, kw_only=True)
class EndpointResponse:
    """The endpoint's response. Without a status there was none, and the snippet says why."""

    status: int | None
    snippet: str
    duration_ms: int
    #: The seconds of the endpoint's Retry-After.
    retry_after: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def headers_for(message_id: str, body: str, secrets: Sequence[str]) -> dict[str, str]:
    """Return the headers of Standard Webhooks, with one signature per secret."""
    now = datetime.now(UTC)
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(
            Signer(secret).sign(message_id, now, body) for secret in secrets
        ),
    }


def post(
    url: str,
    *,
    message_id: str,
    body: str,
    secrets: Sequence[str],
    seconds: float = SECONDS,
    resolve: Resolver | None = None,
) -> EndpointResponse:
    """Send once. Redirects are not followed, because only this URL was checked."""
    began = time.monotonic()
    headers = headers_for(message_id, body, secrets)
    try:
        with (
            guarded_client("webhooks", resolve=resolve, timeout=seconds, total=seconds) as client,
            client.stream("POST", url, content=body.encode(), headers=headers) as response,
        ):
            snippet, wait = _beginning(response), retry_after(response.headers)
            status: int | None = response.status_code
    except EgressRefused as refused:
        status, snippet, wait = None, refused.detail, None
    except httpx2.TimeoutException:
        status, snippet, wait = None, f"No response within {seconds:g} s.", None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, ValueError) as error:
        status, snippet, wait = None, f"The endpoint could not be reached: {error}", None
    return EndpointResponse(
        status=status,
        snippet=printable(snippet),
        duration_ms=int((time.monotonic() - began) * 1000),
        retry_after=wait,
    )


def _beginning(response: httpx2.Response) -> str:
    """Return the first bytes of the body. Compressed bodies stay compressed, as they are untrusted."""
    body = b""
    try:
        for part in response.iter_raw():
            body += part[:LARGEST_SNIPPET]
            if len(body) >= LARGEST_SNIPPET:
                break
    except httpx2.HTTPError:
        pass  # the status is known, and the body is only for the log
    return body[:LARGEST_SNIPPET].decode("utf-8", "replace")


def printable(text: str) -> str:
    """Return the beginning of a text without characters that PostgreSQL or a page cannot hold."""
    clean = "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
    return clean[:LARGEST_SNIPPET]


#: Longer than any attempt can take.
LEASE_SECONDS = 90.0
#: Seconds before each retry: about a day in total.
RETRIES = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 36_000)
JITTER = 0.2
#: A failing endpoint is paused for up to this long, however much is pending.
LONGEST_QUIET = 60.0
LONGEST_RETRY_AFTER = 86_400.0
#: An endpoint must also have failed this often before it is disabled.
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
#: One index lookup per active endpoint, however long the queues are.
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
    """One attempt, owned by one sender."""

    delivery_id: UUID
    webhook: Webhook
    attempt: int
    began: datetime
    #: The exact text that is signed and sent, the same at every attempt.
    body: str


def due_webhooks() -> list[UUID]:
    """Return the webhooks with a delivery to send now."""
    with connection.cursor() as cursor:
        cursor.execute(DUE)
        return [webhook_id for (webhook_id,) in cursor.fetchall()]


def claim(webhook_id: UUID, *, lease: float = LEASE_SECONDS) -> Claim | None:
    """Claim the delivery that has been due longest, for `lease` seconds, or return None."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [lease, lease, webhook_id])
        row = cursor.fetchone()
    webhook = Webhook.objects.filter(pk=webhook_id).first() if row else None
    if row is None or webhook is None:
        return None
    delivery_id, attempt, began, body = row
    return Claim(delivery_id=delivery_id, webhook=webhook, attempt=attempt, began=began, body=body)


@transaction.atomic
def record(claim: Claim, answer: EndpointResponse) -> None:
    """Write the outcome of an attempt, unless another sender has taken over the delivery.

    The webhook is locked before its deliveries, as everywhere, to avoid deadlocks.
    """
    webhook = None
    if claim.webhook.failures or not answer.is_delivered:
        rows = Webhook.objects.select_for_update(no_key=True)
        webhook = rows.filter(pk=claim.webhook.pk).first()
    written = _write(claim, answer, may_retry=webhook is not None and webhook.active)
    if webhook and written:
        _count(webhook, answer)


def _write(claim: Claim, answer: EndpointResponse, *, may_retry: bool) -> bool:
    claimed = WebhookDelivery.objects.filter(
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
        return bool(claimed.update(**outcome, next_attempt_at=due))
    status = "delivered" if answer.is_delivered else "failed"
    return bool(claimed.update(**outcome, status=status, next_attempt_at=None, finished_at=Now()))


def delay_after(attempt: int, retry_after: float | None) -> float | None:
    """Return the seconds until the next attempt, or None after the last one."""
    if attempt > len(RETRIES):
        return None
    usual = RETRIES[attempt - 1] * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
    return max(usual, min(retry_after or 0.0, LONGEST_RETRY_AFTER))


def _count(webhook: Webhook, answer: EndpointResponse) -> None:
    """Update the webhook's failures, and disable it if it is gone or has failed for days."""
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
        drop_pending(webhook.pk, "The webhook was disabled before this was sent.")
    webhook.save()
    if reason:
        # Only now: the notice is an event too, and this webhook must not receive it.
        tell_switched_off(webhook)


def _reason_to_give_up(webhook: Webhook, answer: EndpointResponse) -> str:
    if answer.status == GONE:
        return "The endpoint responded 410 Gone."
    since = webhook.failing_since or timezone.now()
    patience = timedelta(days=settings.WEBHOOK_GIVE_UP_DAYS)
    if webhook.failures >= LEAST_FAILURES and timezone.now() - since > patience:
        return f"Every attempt has failed since {since:%d %B %Y, %H:%M} UTC."
    return ""


def forget_old_deliveries() -> int:
    """Delete a batch of deliveries older than WEBHOOK_KEEP_DAYS, and return how many."""
    before = timezone.now() - timedelta(days=settings.WEBHOOK_KEEP_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(FORGET, [before, AT_ONCE])
        return cursor.rowcount


# ── The sender ───────────────────────────────────────────────────────────────

#: The number of quick threads, and of careful threads.
THREADS = 12
#: Simultaneous deliveries to one quick endpoint.
WIDTH = 4
QUICK_MS = 2_000
#: After this many deliveries, an endpoint with a long queue goes to the end of the line.
TURN = 20
#: How often the table is polled, for retries and lost notifications.
LOOK_SECONDS = 5.0


class Sender:
    """Listens for new deliveries and sends those that are due, until the event is set.

    Endpoints whose last response was quick share the quick threads, with several deliveries at once
    each. All others (new, slow or failing) get one delivery at a time on the careful threads. A dead
    endpoint therefore blocks a quick thread for at most one timeout, and delays no other endpoint.
    """

    def __init__(
        self,
        stop: threading.Event,
        *,
        look_seconds: float = LOOK_SECONDS,
        seconds: float = SECONDS,
        threads: int = THREADS,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._stop = stop
        self._look_seconds = look_seconds
        self._seconds = seconds
        self._threads = threads
        self._lease = lease
        self._quick: SimpleQueue[UUID | None] = SimpleQueue()
        self._careful: SimpleQueue[UUID | None] = SimpleQueue()
        self._lock = threading.Lock()
        #: Waiting and running turns, per endpoint.
        self._turns: Counter[UUID] = Counter()
        self._proven: set[UUID] = set()
        #: Endpoints notified while they had all their turns. They get one more.
        self._again: set[UUID] = set()

    def start(self) -> threading.Thread:
        """Start the threads and return the listening one.

        They are daemons: a delivery that a stop interrupts is sent again when its lease expires.
        """
        for queue in (self._quick, self._careful):
            for nth in range(self._threads):
                name = f"webhook {'quick' if queue is self._quick else 'careful'} {nth}"
                threading.Thread(target=self._work, args=[queue], name=name, daemon=True).start()
        listening = threading.Thread(target=self.run, name="webhook sender", daemon=True)
        listening.start()
        return listening

    def run(self) -> None:
        notified: SimpleQueue[str] = SimpleQueue()
        with subscribe(CHANNEL, notified.put, missed=lambda: notified.put("")):
            polled = 0.0
            while not self._stop.is_set():
                if time.monotonic() - polled >= self._look_seconds:
                    polled = time.monotonic()
                    self._look()
                with suppress(Empty, ValueError):
                    if webhook_id := notified.get(timeout=min(self._look_seconds, 1.0)):
                        self._give_turn(UUID(webhook_id))
                    else:
                        polled = 0.0  # notifications may have been missed
        for queue in (self._quick, self._careful):
            for _ in range(self._threads):
                queue.put(None)

    def _look(self) -> None:
        """Give a turn to every endpoint with due deliveries: retries, and lost notifications."""
        try:
            for webhook_id in due_webhooks():
                self._give_turn(webhook_id)
        except (DatabaseError, InterfaceError) as error:
            log.warning("webhook_look_failed", error=str(error).strip())
        finally:
            connection.close()

    def _give_turn(self, webhook_id: UUID) -> None:
        """Queue a turn for the endpoint, unless it already has the maximum."""
        with self._lock:
            quick = webhook_id in self._proven
            if self._turns[webhook_id] >= (WIDTH if quick else 1):
                self._again.add(webhook_id)
                return
            self._turns[webhook_id] += 1
            (self._quick if quick else self._careful).put(webhook_id)

    def _work(self, queue: SimpleQueue[UUID | None]) -> None:
        while (webhook_id := queue.get()) is not None and not self._stop.is_set():
            more = False
            try:
                more = self._take_turn(webhook_id)
            except (DatabaseError, InterfaceError) as error:
                log.warning("webhook_turn_failed", error=str(error).strip())
            except Exception:  # one endpoint's error must not end the thread
                log.exception("webhook_turn_failed")
            finally:
                connection.close()
                more = self._end_turn(webhook_id) or more
            if more:
                self._give_turn(webhook_id)

    def _end_turn(self, webhook_id: UUID) -> bool:
        """End a turn, and return whether the endpoint was notified during it."""
        with self._lock:
            self._turns[webhook_id] -= 1
            if self._turns[webhook_id] <= 0:
                del self._turns[webhook_id]
            notified = webhook_id in self._again
            self._again.discard(webhook_id)
            return notified

    def _take_turn(self, webhook_id: UUID) -> bool:
        """Send due deliveries of one endpoint, and return whether there may be more."""
        for _ in range(TURN):
            claimed = None if self._stop.is_set() else claim(webhook_id, lease=self._lease)
            # Hold no connection while the endpoint takes its time.
            connection.close()
            if claimed is None:
                return False
            self._give_turn(webhook_id)
            answer = self._send(claimed)
            record(claimed, answer)
            connection.close()
            if not self._judge(webhook_id, answer):
                return True
        return True

    def _send(self, claimed: Claim) -> EndpointResponse:
        webhook = claimed.webhook
        secrets = [webhook.secret]
        if webhook.old_secret and (webhook.old_secret_until or timezone.now()) > timezone.now():
            secrets.append(webhook.old_secret)
        return post(
            webhook.url,
            message_id=str(claimed.delivery_id),
            body=claimed.body,
            secrets=secrets,
            seconds=self._seconds,
        )

    def _judge(self, webhook_id: UUID, answer: EndpointResponse) -> bool:
        """Record whether the endpoint is quick, and return whether that stayed the same."""
        quick = answer.is_delivered and answer.duration_ms < QUICK_MS
        with self._lock:
            was = webhook_id in self._proven
            (self._proven.add if quick else self._proven.discard)(webhook_id)
        return quick == was
