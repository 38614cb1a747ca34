"""How often a step is tried, how long an attempt may take, and how long it pauses in between."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from config.faults import Invalid

Backoff: TypeAlias = Literal["constant", "linear", "exponential"]
Seconds: TypeAlias = float | int | timedelta

LONGEST_SECONDS = 365 * 86_400.0
RETRIES, DELAY, TIMEOUT = 5, 10.0, 600.0
#: Two to this power is more than the longest pause.
MOST_DOUBLINGS = 32


def seconds_of(given: Seconds) -> float:
    """A span of time, at most a year."""
    span = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not 0 <= span <= LONGEST_SECONDS:
        raise Invalid("A span of time is from 0 seconds to 365 days.")
    return span


@dataclass(frozen=True, kw_only=True)
class Policy:
    """`retries` come after the first attempt. An attempt that was lost with its worker counts."""

    retries: int = RETRIES
    delay: float = DELAY
    backoff: Backoff = "exponential"
    timeout: float | None = TIMEOUT

    def allows_more(self, attempts: int) -> bool:
        return attempts <= self.retries

    def pause(self, attempts: int) -> float:
        """How long to wait after so many attempts."""
        match self.backoff:
            case "constant":
                factor = 1
            case "linear":
                factor = attempts
            case "exponential":
                factor = 2 ** min(attempts - 1, MOST_DOUBLINGS)
        return min(self.delay * factor, LONGEST_SECONDS)
