"""Ids that sort by the time they were made."""

from __future__ import annotations

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """A UUID version 7 (RFC 9562): 48 bits of milliseconds, then chance."""
    millis = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10), "big")
    value = (millis & ((1 << 48) - 1)) << 80 | chance
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
