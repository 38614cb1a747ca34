"""Turns Ctrl-C, SIGTERM and SIGHUP into a wish to stop, and wakes the loop at once."""

from __future__ import annotations

import os
import select
import signal
import time
from types import FrameType
from typing import Self

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_SECONDS = 1.0


class StopAsked(BaseException):
    """Someone asked to stop while things were still being prepared."""


class Signals:
    """Notes the wishes to stop. `abrupt` makes a wish interrupt whatever is being done."""

    def __init__(self) -> None:
        self.abrupt = True
        self._wishes: list[float] = []
        self._numbers: set[int] = set()

    @property
    def stop(self) -> bool:
        return bool(self._wishes)

    @property
    def is_by_hand(self) -> bool:
        """Say whether a person stops it, and not a service manager, which may start it again."""
        return bool(self._numbers & {signal.SIGINT, signal.SIGHUP})

    @property
    def hurry(self) -> bool:
        """Say whether somebody asked again. `make` passes on what its whole group was sent."""
        return bool(self._wishes) and self._wishes[-1] - self._wishes[0] > ECHO_SECONDS

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in STOPPING:
            signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # only to wake the loop
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)  # the last steps are short

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._wishes.append(time.monotonic())
        self._numbers.add(number)
        if self.abrupt:
            self.abrupt = False
            raise StopAsked

    def wait(self, seconds: float) -> None:
        """Sleep until a signal comes, at most so long."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 4096)
