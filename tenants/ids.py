"""Ids that sort by the time they were made, and within one process always in order."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """A UUID version 7 (RFC 9562): milliseconds, twelve bits of a finer clock, then chance."""
    global _last
    with _lock:
        _last = ticks = max(_last + 1, time.time_ns() * 4096 // 1_000_000)
    millis, fraction = ticks >> 12, ticks & 0xFFF
    chance = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    return UUID(int=(millis << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | chance)


def made_at(id: UUID) -> datetime:
    """When such an id was made, to the millisecond."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


def _new_lock() -> None:
    """A fork may happen while another thread of the parent holds the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
