"""A cache whose entries are forgotten as soon as PostgreSQL notifies that something has changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from django.db import connection

from core.pg_listen import Subscription, listener

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

MOST_CACHED = 5_000


class NotifiedCache(Generic[K, T]):
    """Caches loaded values for a few seconds, and forgets all of them at a notification.

    Whatever changes a value notifies the channel in its commit, for example by a trigger. Values are
    not cached while notifications do not arrive, nor inside a transaction, whose own changes are not
    notified yet.
    """

    def __init__(
        self, channel: str, load: Callable[[K], T], *, seconds: Callable[[], float]
    ) -> None:
        self._channel = channel
        self._load = load
        self._seconds = seconds
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Start without a subscription, as a fork must: the listener belongs to its parent."""
        self._lock = threading.Lock()
        self._subscription: Subscription | None = None
        self._gaps = 0
        self.forget()

    def forget(self, _payload: str = "") -> None:
        """Forget all values. A value that is being loaded goes into the dictionary that is left."""
        self._entries: dict[K, tuple[float, T]] = {}

    def get(self, key: K) -> T:
        seconds = self._seconds()
        if not seconds or connection.in_atomic_block or not self._is_notified():
            return self._load(key)
        entries, now = self._entries, time.monotonic()
        entry = entries.get(key)
        if entry and now - entry[0] < seconds:
            return entry[1]
        value = self._load(key)
        if len(entries) >= MOST_CACHED:
            self.forget()
        entries[key] = (now, value)
        return value

    def close(self) -> None:
        """Stop listening. The next `get` starts again."""
        with self._lock:
            subscription, self._subscription = self._subscription, None
        if subscription:
            subscription.close()
        self.forget()

    def _is_notified(self) -> bool:
        """Return whether every change is notified, beginning to listen if this is the first call."""
        subscription = self._subscription or self._subscribe()
        if subscription.gaps != self._gaps:
            self._gaps = subscription.gaps
            self.forget()
        return subscription.active.is_set()

    def _subscribe(self) -> Subscription:
        with self._lock:
            if self._subscription is None:
                self._subscription = listener.register(self._channel, self.forget, self.forget)
                self._gaps = 0
            return self._subscription
