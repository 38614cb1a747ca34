"""Sends webhooks on separate threads, so that no endpoint delays another one or the supervisor.

Endpoints whose last response was quick share the quick threads, with several deliveries at once each.
All others (new, slow or failing) get one delivery at a time on the careful threads. A dead endpoint
therefore blocks a quick thread for at most one timeout.
Any number of senders may run, because each delivery is claimed under a lock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from queue import Empty, SimpleQueue
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from core.pg_listen import subscribe
from tenants.notifications.deliveries import (
    LEASE_SECONDS,
    SECONDS,
    Claim,
    EndpointResponse,
    claim,
    due_webhooks,
    post,
    record,
)
from tenants.notifications.webhooks import CHANNEL

log = structlog.get_logger(__name__)

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
    """Listens for new deliveries and sends those that are due, until the event is set."""

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
        with subscribe(CHANNEL, notified.put):
            polled = 0.0
            while not self._stop.is_set():
                if time.monotonic() - polled >= self._look_seconds:
                    polled = time.monotonic()
                    self._look()
                with suppress(Empty, ValueError):
                    self._give_turn(UUID(notified.get(timeout=min(self._look_seconds, 1.0))))
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
