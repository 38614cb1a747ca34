"""The only way out to addresses that users, models or servers name.

A name is resolved once. If any of its addresses is not on the public internet, nothing is
contacted; otherwise the connection goes to a checked address, so that a second answer of the
name server cannot lead elsewhere. Redirects are new connections and pass the same check.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from math import inf
from typing import Any, TypeAlias

import httpcore2
import httpx2
from django.conf import settings

from config.faults import EgressRefused

Address: TypeAlias = IPv4Address | IPv6Address
#: Host and port to the addresses of the host, as text.
Resolver: TypeAlias = Callable[[str, int], list[str]]

CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
MOST_REDIRECTS = 5
#: Addresses that carry an IPv4 address in their last 32 bits, for translation on the way.
_TRANSLATED = IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments; one cloud's metadata service is here
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # the host's services of another cloud
    IPv6Network("2001::/23"),  # protocol assignments
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("3fff::/20"),  # documentation
)


def guarded_client(
    *,
    resolve: Resolver | None = None,
    timeout: float = READ_SECONDS,
    total: float = inf,
    **options: Any,
) -> httpx2.Client:
    """An HTTP client that reaches public addresses only, and asks the environment for nothing.

    `timeout` bounds each wait, `total` the life of the client: a server that sends a byte now and
    then gets no longer than that.
    """
    return httpx2.Client(
        transport=GuardedTransport(resolve=resolve, until=time.monotonic() + total),
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        trust_env=False,
        max_redirects=MOST_REDIRECTS,
        **options,
    )


class GuardedTransport(httpx2.HTTPTransport):
    """HTTP over connections that `GuardedBackend` makes."""

    def __init__(self, *, resolve: Resolver | None = None, until: float = inf) -> None:
        # Not the parent's: it would build a pool that connects anywhere.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=shared_ssl_context(),
            max_connections=10,
            max_keepalive_connections=0,
            network_backend=GuardedBackend(resolve or resolve_host, until),
        )


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects to checked addresses only."""

    def __init__(self, resolve: Resolver, until: float = inf) -> None:
        self._resolve = resolve
        self._until = until
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        addresses = check_host(host, port, self._resolve)
        until = min(self._until, time.monotonic() + (timeout or CONNECT_SECONDS))
        for address in addresses[:-1]:
            try:
                # A dead address takes half of the time that is left, not all of it.
                return self._connect(address, port, _left(until) / 2, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._connect(addresses[-1], port, _left(until), socket_options)

    def _connect(
        self, address: str, port: int, seconds: float, socket_options: Iterable[Any] | None
    ) -> httpcore2.NetworkStream:
        stream = self._plain.connect_tcp(address, port, seconds, None, socket_options)
        return BoundedStream(stream, self._until)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        raise EgressRefused("Sockets of this machine are not contacted.")


class BoundedStream(httpcore2.NetworkStream):
    """A connection that ends at a fixed time, however slowly the other side goes on."""

    def __init__(self, stream: httpcore2.NetworkStream, until: float) -> None:
        self._stream = stream
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._until, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._until, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = _left(self._until, timeout)
        return BoundedStream(
            self._stream.start_tls(ssl_context, server_hostname, left), self._until
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(until: float, timeout: float | None = None) -> float:
    """Seconds that one operation may take. Too late is a time-out like any other."""
    left = min(until - time.monotonic(), timeout if timeout is not None else READ_SECONDS)
    if left <= 0:
        raise httpcore2.ReadTimeout("The time for this request is up.")
    return left


def check_host(host: str, port: int, resolve: Resolver | None = None) -> list[str]:
    """The addresses of a host that may be contacted, or a refusal."""
    try:
        addresses = (resolve or resolve_host)(host, port)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{host} has no address") from error
    if not addresses:
        raise httpcore2.ConnectError(f"{host} has no address")
    if f"{host}:{port}" not in settings.EGRESS_ALLOWED_PRIVATE and not all(
        map(is_public, addresses)
    ):
        raise EgressRefused(
            f"{host} is not on the public internet, so it is not contacted. An administrator may "
            f"add {host}:{port} to EGRESS_ALLOWED_PRIVATE."
        )
    return addresses


def resolve_host(host: str, port: int) -> list[str]:
    """Ask the system once. It also knows the odd spellings, such as 0x7f.1 and 2130706433."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(text: str) -> bool:
    """Whether an address, and any address hidden in it, belongs to the public internet."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    hidden = _hidden(address)
    return is_public(str(hidden)) if hidden else _is_global(address)


def _is_global(address: Address) -> bool:
    """Python's own table differs from version to version, so what it may lack is added."""
    special = (
        address.is_multicast
        or address.is_reserved
        or address.is_link_local
        or address.is_loopback
        or any(address in network for network in _NOT_PUBLIC)
    )
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return address.is_global and not special


def _hidden(address: Address) -> IPv4Address | None:
    if not isinstance(address, IPv6Address):
        return None
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo


@lru_cache(maxsize=1)
def shared_ssl_context() -> ssl.SSLContext:
    """Reading the certificates takes long, so all clients share them."""
    return httpx2.create_ssl_context(trust_env=False)
