"""Shares a limited number of slots between holders, so that one of them leaves room for the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.db import release_connection
from core.exceptions import TooManyRequests


@dataclass(eq=False)
class _Waiter:
    holder: Hashable
    granted: threading.Event = field(default_factory=threading.Event)


class FairSlots:
    """Gives each holder at most `each` slots, and all together at most `total`.

    A slot that becomes free goes to the waiting holder that has the fewest, so a holder with a long
    queue delays only itself.
    """

    def __init__(self, *, each: Callable[[], int], total: Callable[[], int] | None = None) -> None:
        self._each = each
        self._total = total
        self._lock = threading.Lock()
        self._held: Counter[Hashable] = Counter()
        self._waiting: list[_Waiter] = []

    def take(self, holder: Hashable, *, seconds: float = 0) -> bool:
        """Take a slot, waiting for it at most this long. Return whether there was one."""
        with self._lock:
            if self._has_room(holder):
                self._held[holder] += 1
                return True
            if seconds <= 0:
                return False
            waiter = _Waiter(holder)
            self._waiting.append(waiter)
        waiter.granted.wait(seconds)
        with self._lock:
            if not waiter.granted.is_set():
                self._waiting.remove(waiter)
            return waiter.granted.is_set()

    def give_back(self, holder: Hashable) -> None:
        with self._lock:
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]
            fitting = [waiter for waiter in self._waiting if self._has_room(waiter.holder)]
            if fitting:
                first = min(fitting, key=lambda waiter: self._held[waiter.holder])
                self._waiting.remove(first)
                self._held[first.holder] += 1
                first.granted.set()

    @contextmanager
    def hold(self, holder: Hashable, *, seconds: float, refusal: str) -> Iterator[None]:
        """Hold a slot. Wait for it without a database connection, or raise TooManyRequests."""
        if not self.take(holder):
            release_connection()
            if not self.take(holder, seconds=seconds):
                raise TooManyRequests(refusal, retry_after=max(1, seconds))
        try:
            yield
        finally:
            self.give_back(holder)

    def is_full(self, holder: Hashable) -> bool:
        return not self._has_room(holder)

    def _has_room(self, holder: Hashable) -> bool:
        is_full = self._total is not None and self._held.total() >= self._total()
        return not is_full and self._held[holder] < max(1, self._each())
