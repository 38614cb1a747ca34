"""The HTTP connections to model servers that workspaces name: public addresses only.

The vendors' own addresses and the operator's go through `agents.providers.pool`; an address that
a member typed could lead into the operator's network.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock
from typing import Any

import httpcore2
import httpx2

from agents.providers.pool import (
    CONCURRENT_STREAMS,
    CONNECT_SECONDS,
    IDLE_CONNECTIONS,
    IDLE_SECONDS,
)
from config.faults import EgressRefused
from tenants.egress import GuardedBackend, resolve_host

_lock = Lock()
_shared: httpx2.Client | None = None


def guarded_client() -> httpx2.Client:
    """The process's own guarded client, made on first use."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = _new_client()
        return _shared


def _new_client() -> httpx2.Client:
    return httpx2.Client(
        transport=GuardedPool(),
        timeout=httpx2.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS),
        trust_env=False,
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
    )


class GuardedPool(httpx2.HTTPTransport):
    """As many connections as a worker has lanes, each to a checked address."""

    def __init__(self) -> None:
        # Not the parent's: it would build a pool that connects anywhere.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=ModelServerBackend(resolve_host),
        )


class ModelServerBackend(GuardedBackend):
    """Refuses in the words that adapters understand: a server that cannot be reached."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        try:
            return super().connect_tcp(host, port, timeout, local_address, socket_options)
        except EgressRefused as refusal:
            raise httpcore2.ConnectError(refusal.detail) from refusal


def _forget_after_fork() -> None:
    """A child must not write into its parent's sockets, nor wait for a lock its parent held."""
    global _shared, _lock
    _shared, _lock = None, Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
