"""Shares one read among the threads that ask for the same thing at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from django.db import connection

from core.db import release_connection

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Flight(Generic[T]):
    """One read: it begins when the one before it has ended, and its result is for all who wait."""

    def __init__(self, before: _Flight[T] | None) -> None:
        self.before = before
        self.has_begun = False
        self.result: Future[T] = Future()


class SingleFlight(Generic[K, T]):
    """Runs at most one read of each key at a time.

    A caller that finds a read under way waits for the next one, which it shares with everyone else
    who came meanwhile. So the result is never older than the question: nothing is cached.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[K, _Flight[T]] = {}

    def read(self, key: K, load: Callable[[], T]) -> T:
        if connection.in_atomic_block:
            return load()  # A transaction must read what it wrote itself.
        flight, is_new = self._join(key)
        if not is_new:
            release_connection()  # Others need it while this thread waits.
            return flight.result.result()
        return self._run(key, flight, load)

    def _join(self, key: K) -> tuple[_Flight[T], bool]:
        with self._lock:
            newest = self._newest.get(key)
            if newest and not newest.has_begun:
                return newest, False
            flight = self._newest[key] = _Flight(before=newest)
            return flight, True

    def _run(self, key: K, flight: _Flight[T], load: Callable[[], T]) -> T:
        """Read after the read before it. Whatever fails here fails for all who wait for it."""
        try:
            self._wait_for_turn(flight)
            result = load()
        except BaseException as error:
            flight.result.set_exception(error)
            raise
        else:
            flight.result.set_result(result)
            return result
        finally:
            with self._lock:
                if self._newest.get(key) is flight:
                    del self._newest[key]

    def _wait_for_turn(self, flight: _Flight[T]) -> None:
        if flight.before:
            release_connection()
            wait([flight.before.result])
        with self._lock:
            flight.has_begun, flight.before = True, None
