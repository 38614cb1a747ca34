"""A django-q2 broker without a table: NOTIFY carries session ids, and the run queue is the queue.

What has arrived becomes one task. A wake-up that is lost is repeated by the supervisor.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import psycopg
from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.signing import SignedPackage

from config.faults import Fault
from sessions_app.hearing import listen
from sessions_app.wake import CHANNEL

TASK = "sessions_app.tasks.wake_many"
#: Waking itself without being called, so that a stop is seen, and pausing when PostgreSQL is away.
LOOK_SECONDS, PAUSE_SECONDS = 0.5, 0.5


class NotifyBroker(ORM):
    """Hands wake-ups to the workers as they are rung."""

    _listener: psycopg.Connection[Any] | None = None

    def enqueue(self, task: object) -> None:
        raise Fault("This queue carries only wake-ups; use sessions_app.wake.wake.")

    def dequeue(self) -> list[tuple[None, str]]:
        ids = self._hear()
        return [
            (None, self._package(ids[start : start + Conf.BULK]))
            for start in range(0, len(ids), Conf.BULK)
        ]

    def acknowledge(self, task_id: object) -> None:
        """Nothing to take out: the run queue knows what is done."""

    def queue_size(self) -> int:
        return 0

    def lock_size(self) -> int:
        return 0

    def info(self) -> str:
        return "NOTIFY"

    def _hear(self) -> list[str]:
        """The distinct ids that were rung. An error of the connection only costs a pause."""
        try:
            if self._listener is None or self._listener.closed:
                self._listener = listen(CHANNEL)
            heard = self._listener.notifies(timeout=LOOK_SECONDS, stop_after=1)
            return list(dict.fromkeys(note.payload for note in heard))
        except psycopg.Error:
            if self._listener is not None:
                self._listener.close()
            self._listener = None
            time.sleep(PAUSE_SECONDS)
            return []

    def _package(self, ids: list[str]) -> str:
        task = {"id": uuid4().hex, "name": "wake", "func": TASK, "args": (ids,), "kwargs": {}}
        return SignedPackage.dumps({**task, "started": timezone.now()})
