"""The HTTP clients for model providers, one of each kind per process.

The shared client reaches the vendors and the operator's servers. The guarded client reaches servers
whose address a member typed, which could lead into the operator's network, at public addresses only.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import httpcore2
import httpx2

from core.exceptions import EgressRefused
from core.http import GuardedBackend, resolve_host

#: A worker may wait for this many answers at the same time.
CONCURRENT_STREAMS = 1_000
IDLE_CONNECTIONS = 100
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0


@cache
def shared_client() -> httpx2.Client:
    """Return the process's HTTP client, created on first use."""
    return httpx2.Client(
        limits=httpx2.Limits(
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
        ),
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
    )


@cache
def guarded_client() -> httpx2.Client:
    """Return the process's guarded HTTP client, created on first use."""
    return httpx2.Client(
        transport=GuardedPool(),
        timeout=httpx2.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS),
        trust_env=False,
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
    )


# A child must not use its parent's sockets.
os.register_at_fork(after_in_child=shared_client.cache_clear)
os.register_at_fork(after_in_child=guarded_client.cache_clear)


class GuardedPool(httpx2.HTTPTransport):
    """A connection pool that connects to checked addresses only."""

    def __init__(self) -> None:
        # The parent's __init__ is skipped: it would create a pool that connects anywhere.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=ModelServerBackend(resolve_host),
        )


class ModelServerBackend(GuardedBackend):
    """Raises the connection error that adapters expect when an address is refused."""

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        try:
            return super().connect_tcp(*args, **options)
        except EgressRefused as refusal:
            raise httpcore2.ConnectError(refusal.detail) from refusal
