"""Starts a part again when it dies, later each time it dies soon."""

from __future__ import annotations

from collections.abc import Callable

from config.faults import CannotStart
from orchestrator.up.parts import Part

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
HEALTHY_AFTER = 60.0  #: A part that ran this long has recovered.


class Keeper:
    """Looks after one part. Times are given by the caller's monotonic clock."""

    def __init__(self, part: Part, *, say: Callable[[str], None]) -> None:
        self.part = part
        self._say = say
        self._delay = FIRST_DELAY
        self._started: float | None = None
        self._due: float | None = None

    def start(self, now: float) -> None:
        self.part.start()
        self._started, self._due = now, None

    def age(self, now: float) -> float:
        """Say for how long the part has been running."""
        return now - self._started if self._started is not None and self._due is None else 0.0

    def look(self, now: float) -> None:
        """Notice a death, or start again when it is time."""
        if self._due is not None:
            if now >= self._due:
                self._start_again(now)
        elif not self.part.is_alive():
            if self.age(now) >= HEALTHY_AFTER:
                self._delay = FIRST_DELAY
            self._plan(now, f"{self.part.name}: {self.part.cause()}")

    def _start_again(self, now: float) -> None:
        try:
            self.start(now)
        except (CannotStart, OSError) as fault:
            self._plan(now, f"{self.part.name}: does not start: {fault}")

    def _plan(self, now: float, reason: str) -> None:
        self._due = now + self._delay
        self._say(f"{reason}; starting it again in {self._delay:g} s.")
        self._delay = min(self._delay * 2, LONGEST_DELAY)
