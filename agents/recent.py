"""A small memory of rows that hardly change, for the path of every model call.

An entry is at most a few seconds old, so a change made by another process is seen soon; one made
by this process is seen at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from django.db import transaction

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SECONDS = 5.0
MOST_ENTRIES = 5_000


class Recent(Generic[K, V]):
    """Loads a value once per key and few seconds.

    There is no lock that a forked child could inherit: two threads may both load, which is harmless.
    """

    def __init__(self, load: Callable[[K], V], *, seconds: float = SECONDS) -> None:
        self._load = load
        self._seconds = seconds
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V:
        now = time.monotonic()
        entry = self._entries.get(key)
        if entry and now - entry[0] < self._seconds:
            return entry[1]
        value = self._load(key)
        if len(self._entries) >= MOST_ENTRIES:
            self._entries = {}
        self._entries[key] = (now, value)
        return value

    def forget(self, key: K) -> None:
        """Load afresh from now on, and again after the commit that makes the change visible."""
        self._entries.pop(key, None)
        transaction.on_commit(lambda: self._entries.pop(key, None))
