"""Token buckets in the memory of this process: how much each caller may ask for now."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from django.conf import settings

from config.faults import TooManyRequests

#: Least burst that any caller has: the public contract promises fifty requests a second.
LEAST_BURST = 50
#: An anonymous address gets this part of what a known caller gets.
ANONYMOUS_PART = 10
#: The same for wrong keys: by default fifty a second are answered with what is wrong with them.
GUESSING_PART = 2
#: Callers that are remembered; the one that was quiet for longest is forgotten first.
MOST_CALLERS = 20_000


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What is left after one request. `wait` is zero when the request may pass."""

    limit: int
    remaining: int
    reset: float
    wait: float


class Buckets:
    """A bucket per caller, which fills steadily and is emptied by requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def spend(self, caller: str, *, per_minute: int) -> Allowance:
        """Take one token, if there is one."""
        rate = max(1, per_minute) / 60
        capacity = max(LEAST_BURST, round(rate * 2))
        with self._lock:
            now = self._clock()
            level, seen = self._levels.pop(caller, (float(capacity), now))
            level = min(capacity, level + (now - seen) * rate)
            wait = 0.0 if level >= 1 else (1 - level) / rate
            level -= 0 if wait else 1
            self._levels[caller] = (level, now)
            if len(self._levels) > MOST_CALLERS:
                self._levels.popitem(last=False)
        return Allowance(
            limit=capacity, remaining=int(level), reset=(capacity - level) / rate, wait=wait
        )

    def empty(self) -> None:
        """Forget every caller."""
        with self._lock:
            self._levels.clear()


buckets = Buckets()


def spend_anonymous(client: str) -> Allowance:
    per_minute = max(1, settings.REQUESTS_PER_MINUTE // ANONYMOUS_PART)
    return buckets.spend(f"address {client}", per_minute=per_minute)


def spend_guess(client: str) -> None:
    """Pay for a wrong key, from a bucket of the address for nothing else."""
    per_minute = max(1, settings.REQUESTS_PER_MINUTE // GUESSING_PART)
    allowance = buckets.spend(f"guesses {client}", per_minute=per_minute)
    if allowance.wait:
        raise TooManyRequests(retry_after=allowance.wait)
