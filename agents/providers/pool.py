"""The HTTP connections to model providers: one pool per process, shared by every thread."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpx2 import Client

#: A worker may wait for this many answers at once.
CONCURRENT_STREAMS = 1_000
IDLE_CONNECTIONS = 100
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0

_lock = Lock()
_shared: Client | None = None


def shared_client() -> Client:
    """The process's own HTTP client, made on first use."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = _new_client()
        return _shared


def _new_client() -> Client:
    import httpx2

    return httpx2.Client(
        limits=httpx2.Limits(
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
        ),
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
    )


def _forget_after_fork() -> None:
    """A child must not write into its parent's sockets, nor wait for a lock its parent held."""
    global _shared, _lock
    _shared, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
