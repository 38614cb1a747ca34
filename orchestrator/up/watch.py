"""Finds parts that live but hang: a process that runs and gives no sign of life."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from django.db import Error, connections

from orchestrator.up.health import Health
from tenants.pulse import freshest

LOOK_EVERY = 5.0
SILENT_AFTER = 45.0  #: Seconds without a sign of life after which a part counts as hanging.
RINGS_WITHIN = 10.0  #: A process whose pulse is younger has rung the others lately.
#: Looks in a row that must agree: the first after a laptop woke up proves nothing.
LOOKS = 3

#: Seconds since the last sign of life, or None when that cannot be told.
Sign = Callable[[], float | None]


class Watch:
    """Looks at the signs of life in a thread of its own, so that a slow look delays nothing."""

    def __init__(self, signs: dict[str, Sign]) -> None:
        self._signs = signs
        self._silent = dict.fromkeys(signs, 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def hangs(self, name: str) -> bool:
        return self._silent.get(name, 0) >= LOOKS

    def forgive(self, name: str) -> None:
        """Count anew, as the part was started again."""
        self._silent[name] = 0

    def look(self) -> None:
        for name, sign in self._signs.items():
            age = sign()
            self._silent[name] = self._silent[name] + 1 if age and age > SILENT_AFTER else 0

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            self.look()
            connections.close_all()  # a restarted database needs new ones


def pulse_of(kind: str, *, rung_by: str | None = None) -> Sign:
    """Read the youngest pulse of a kind of process, which perhaps beats only when rung."""

    def read() -> float | None:
        try:
            if rung_by and (freshest(rung_by) or SILENT_AFTER) > RINGS_WITHIN:
                return None  # nobody rang, so silence proves nothing
            return freshest(kind)
        except Error:  # the database is away, which says nothing about the process
            return None

    return read


def answers_of(ask: Callable[[], Health]) -> Sign:
    """Ask the web server, and tell how long ago it answered; what it says does not matter."""
    last = time.monotonic()

    def read() -> float:
        nonlocal last
        if ask().answered:
            last = time.monotonic()
        return time.monotonic() - last

    return read
