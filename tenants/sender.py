"""Sends webhooks on threads of its own, so that no endpoint delays another, nor the supervisor.

Endpoints that answered quickly last time share the quick threads, several deliveries at once each; all
others (new, slow or failing) go one delivery at a time through the careful threads. A dead endpoint
therefore takes a quick thread at most for one time-out, and never the last one of the others.
Any number of senders may run: deliveries are claimed row by row.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from queue import SimpleQueue
from uuid import UUID

import psycopg
import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from config.pg_listener import connection_parameters
from tenants.deliveries import LEASE_SECONDS, Claim, claim, due_webhooks, record
from tenants.posting import SECONDS, Answer, post
from tenants.webhooks import CHANNEL

log = structlog.get_logger(__name__)

#: On each of the two sides.
THREADS = 12
#: Deliveries to one quick endpoint at the same time.
WIDTH = 4
QUICK_MS = 2_000
#: An endpoint with a long queue stands in line again after so many.
TURN = 20
#: How often the table is looked at although nobody rang: for retries, and for rings that were lost.
LOOK_SECONDS = 5.0
PAUSE_SECONDS = 1.0


class Sender:
    """Hears of new deliveries, and sends what is due until it is told to stop."""

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
        #: Turns that wait or run, per endpoint.
        self._turns: Counter[UUID] = Counter()
        self._proven: set[UUID] = set()
        #: Endpoints that were rung while they had all their turns: they get one more.
        self._again: set[UUID] = set()

    def start(self) -> threading.Thread:
        """Daemons all: what a stop cuts short is sent again by whoever takes over the lease."""
        for queue in (self._quick, self._careful):
            for nth in range(self._threads):
                name = f"webhook {'quick' if queue is self._quick else 'careful'} {nth}"
                threading.Thread(target=self._work, args=[queue], name=name, daemon=True).start()
        listening = threading.Thread(target=self.run, name="webhook sender", daemon=True)
        listening.start()
        return listening

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except (psycopg.Error, DatabaseError, InterfaceError) as error:
                log.warning("webhook_listener_lost", error=str(error).strip())
                connection.close()
                self._stop.wait(PAUSE_SECONDS)
        for queue in (self._quick, self._careful):
            for _ in range(self._threads):
                queue.put(None)

    def _listen(self) -> None:
        with psycopg.connect(**connection_parameters(), autocommit=True) as listener:
            listener.execute(f"LISTEN {CHANNEL}".encode())
            looked = 0.0
            while not self._stop.is_set():
                if time.monotonic() - looked >= self._look_seconds:
                    looked = time.monotonic()
                    for webhook_id in due_webhooks():
                        self._give_turn(webhook_id)
                    connection.close()
                for note in listener.notifies(timeout=min(self._look_seconds, 1.0), stop_after=1):
                    with suppress(ValueError):
                        self._give_turn(UUID(note.payload))

    def _give_turn(self, webhook_id: UUID) -> None:
        """Put the endpoint in line, unless it has all the turns it may have at once."""
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
            except Exception:  # one endpoint's trouble must not end the thread
                log.exception("webhook_turn_failed")
            finally:
                connection.close()
                more = self._end_turn(webhook_id) or more
            if more:
                self._give_turn(webhook_id)

    def _end_turn(self, webhook_id: UUID) -> bool:
        """Whether somebody rang meanwhile."""
        with self._lock:
            self._turns[webhook_id] -= 1
            if self._turns[webhook_id] <= 0:
                del self._turns[webhook_id]
            rung = webhook_id in self._again
            self._again.discard(webhook_id)
            return rung

    def _take_turn(self, webhook_id: UUID) -> bool:
        """Send what is due for one endpoint, for a while. Says whether there may be more."""
        for _ in range(TURN):
            held = None if self._stop.is_set() else claim(webhook_id, lease=self._lease)
            # No connection is held while a stranger takes its time.
            connection.close()
            if held is None:
                return False
            self._give_turn(webhook_id)
            answer = self._send(held)
            record(held, answer)
            connection.close()
            if not self._judge(webhook_id, answer):
                return True
        return True

    def _send(self, held: Claim) -> Answer:
        webhook = held.webhook
        secrets = [webhook.secret]
        if webhook.old_secret and (webhook.old_secret_until or timezone.now()) > timezone.now():
            secrets.append(webhook.old_secret)
        return post(
            webhook.url,
            message_id=str(held.delivery_id),
            body=held.body,
            secrets=secrets,
            seconds=self._seconds,
        )

    def _judge(self, webhook_id: UUID, answer: Answer) -> bool:
        """Whether the endpoint stays on the threads that it is on."""
        quick = answer.is_delivered and answer.duration_ms < QUICK_MS
        with self._lock:
            was = webhook_id in self._proven
            (self._proven.add if quick else self._proven.discard)(webhook_id)
        return quick == was
