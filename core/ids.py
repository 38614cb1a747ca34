"""Ids that sort by creation time, strictly so within one process, and secret tokens."""

from __future__ import annotations

import os
import secrets
import threading
import time
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """Return a UUID version 7 (RFC 9562): milliseconds, a 12-bit fraction, then random bits."""
    global _last
    with _lock:
        _last = ticks = max(_last + 1, time.time_ns() * 4096 // 1_000_000)
    millis, fraction = ticks >> 12, ticks & 0xFFF
    noise = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
    return UUID(int=(millis << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | noise)


def made_at(id: UUID) -> datetime:
    """Return when an id of `uuid7` was made, to the millisecond."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


def _new_lock() -> None:
    """Replace the lock after a fork, as another thread of the parent may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Hash a token for storage. A plain hash is enough for 256 random bits."""
    return sha256(token.encode()).hexdigest()
