"""How a run learns that it should stop, and lets what it waits for learn it too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from config.faults import RunStopped


class StopSign:
    """Given once, seen by all. Callbacks run at once, in the thread that gives it."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason = ""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def give(self, reason: str) -> None:
        with self._lock:
            if self.event.is_set():
                return
            self.reason = reason
            self.event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise if the run should stop."""
        if self.event.is_set():
            raise RunStopped(self.reason)

    @contextmanager
    def calls(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have the callback called when the sign is given while the block runs."""
        with self._lock:
            given = self.event.is_set()
            if not given:
                self._callbacks.append(callback)
        if given:
            callback()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
