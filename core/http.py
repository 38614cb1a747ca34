"""HTTP clients for URLs that users, models or servers supply. They reach public addresses only.

A host name is resolved once. If any of its addresses is not public, the request is refused;
otherwise the client connects to a checked address, so that a second DNS answer cannot redirect it
(DNS rebinding). Redirects are new connections and pass the same check.

An operator can open a private address with EGRESS_ALLOWED_PRIVATE, for one purpose at a time: an
address that is open to model servers stays closed to pages, webhooks and sandboxes.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from math import inf, isfinite
from typing import Any, Literal, TypeAlias, get_args

import anyio.to_thread
import httpcore2
import httpx2
import idna
from django.conf import settings

from core.exceptions import EgressRefused, Invalid

Address: TypeAlias = IPv4Address | IPv6Address
#: Maps a host and a port to the host's addresses, as text.
Resolver: TypeAlias = Callable[[str, int], list[str]]
#: What a connection is for: a model server, an MCP server, a page or file that an agent or a session
#: fetches, a webhook, a git repository, or a command in a sandbox.
Purpose: TypeAlias = Literal["models", "mcp", "web", "webhooks", "repositories", "sandboxes"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)

CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
MOST_REDIRECTS = 5
#: NAT64 addresses, which carry an IPv4 address in their last 32 bits.
_TRANSLATED = IPv6Network("64:ff9b::/96")
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments; includes a cloud metadata service
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv4Network("168.63.129.16/32"),  # Azure's host services
    IPv6Network("2001::/23"),  # protocol assignments
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("3fff::/20"),  # documentation
)


def guarded_client(
    purpose: Purpose,
    *,
    resolve: Resolver | None = None,
    timeout: float = READ_SECONDS,
    total: float = inf,
    **options: Any,
) -> httpx2.Client:
    """Return an HTTP client that reaches public addresses only and ignores the environment.

    `timeout` bounds each wait, and `total` bounds the client's life, so that a server that sends
    single bytes cannot hold it longer.
    """
    return httpx2.Client(
        transport=GuardedTransport(purpose, resolve=resolve, until=time.monotonic() + total),
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        trust_env=False,
        max_redirects=MOST_REDIRECTS,
        **options,
    )


class GuardedTransport(httpx2.HTTPTransport):
    """HTTP over the connections of `GuardedBackend`."""

    def __init__(
        self, purpose: Purpose, *, resolve: Resolver | None = None, until: float = inf
    ) -> None:
        # Don't call the parent: its pool would connect anywhere.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=shared_ssl_context(),
            max_connections=10,
            max_keepalive_connections=0,
            network_backend=GuardedBackend(purpose, resolve or resolve_host, until),
        )


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects to checked addresses only."""

    def __init__(self, purpose: Purpose, resolve: Resolver, until: float = inf) -> None:
        self._purpose = purpose
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
        addresses = check_host(host, port, self._resolve, purpose=self._purpose)
        until = min(self._until, time.monotonic() + (timeout or CONNECT_SECONDS))
        for address in addresses[:-1]:
            try:
                # A dead address may use half of the remaining time, not all of it.
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
        raise EgressRefused("Unix sockets cannot be contacted.")


class BoundedStream(httpcore2.NetworkStream):
    """A connection that times out at a fixed time, however slowly the server sends."""

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
    """Return the seconds that one operation may take. Raise ReadTimeout if none are left."""
    left = min(until - time.monotonic(), timeout if timeout is not None else READ_SECONDS)
    if left <= 0:
        raise httpcore2.ReadTimeout("The request took too long.")
    return left


def check_host(
    host: str, port: int, resolve: Resolver | None = None, *, purpose: Purpose
) -> list[str]:
    """Return the addresses of a host. Raise EgressRefused if one of them is not public."""
    try:
        addresses = (resolve or resolve_host)(host, port)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{host} has no address") from error
    if not addresses:
        raise httpcore2.ConnectError(f"{host} has no address")
    if not is_allowed_private(host, port, purpose) and not all(map(is_public, addresses)):
        raise EgressRefused(
            f"{host} is not on the public internet, so it is not contacted. An administrator can "
            f"add {purpose}={host}:{port} to EGRESS_ALLOWED_PRIVATE."
        )
    return addresses


def is_allowed_private(host: str, port: int, purpose: Purpose) -> bool:
    """Return whether the operator opened this address for this purpose.

    An entry without a purpose is a model server.
    """
    entry = f"{host}:{port}"
    allowed = settings.EGRESS_ALLOWED_PRIVATE
    return f"{purpose}={entry}" in allowed or (purpose == "models" and entry in allowed)


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def ascii_host(host: str) -> str:
    """Return a host as programs look it up: in lower case and punycode, without a final dot.

    Raise Invalid for a name that programs could read differently than this check.
    """
    with suppress(ValueError):
        return str(ip_address(host))
    try:
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        name = ""
    name = name.removesuffix(".")
    if not _HOST_NAME.fullmatch(name):
        raise Invalid(f"{host} is not the name of a host.")
    return name


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a host once with the system, which also accepts forms like 0x7f.1 and 2130706433."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def is_public(text: str) -> bool:
    """Return whether an address, or the IPv4 address embedded in it, is public."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    embedded = _embedded(address)
    return is_public(str(embedded)) if embedded else _is_global(address)


def _is_global(address: Address) -> bool:
    """Return whether an address is public.

    Python's table differs between versions, so networks that it may lack are checked too.
    """
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


def _embedded(address: Address) -> IPv4Address | None:
    if not isinstance(address, IPv6Address):
        return None
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo


@lru_cache(maxsize=1)
def shared_ssl_context() -> ssl.SSLContext:
    """Return the SSL context of all clients, because reading the certificates is slow."""
    return httpx2.create_ssl_context(trust_env=False)


class AsyncGuardedTransport(httpx2.AsyncHTTPTransport):
    """Asynchronous HTTP to public addresses only.

    A client library may swallow errors, so `refusal` and `status` keep the last outcome.
    """

    def __init__(self, purpose: Purpose, *, largest: int, resolve: Resolver | None = None) -> None:
        # Don't call the parent: its pool would connect anywhere.
        self._backend = AsyncGuardedBackend(purpose, resolve)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=shared_ssl_context(),
            max_connections=10,
            max_keepalive_connections=2,
            network_backend=self._backend,
        )
        self._largest = largest
        self.status = 0
        self._too_large = ""

    @property
    def refusal(self) -> str:
        """Return why this transport refused the request, or an empty string."""
        return self._backend.refusal or self._too_large

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A small compressed response could expand until it fills the memory.
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        self.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            self._too_large = "The server sent a compressed response, which was not requested."
            raise httpx2.ReadError(self._too_large, request=request)
        response.stream = BoundedAsyncStream(response.stream, self._largest, self._refuse)
        return response

    def _refuse(self) -> httpx2.ReadError:
        self._too_large = f"The server sent more than {self._largest:,} bytes in one response."
        return httpx2.ReadError(self._too_large)


class BoundedAsyncStream(httpx2.AsyncByteStream):
    """A response body that raises once it exceeds the limit."""

    def __init__(self, stream: Any, largest: int, refuse: Any) -> None:
        self._stream, self._left, self._refuse = stream, largest, refuse

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise self._refuse()
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class AsyncGuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses only, and reports a refusal as a ConnectError."""

    def __init__(self, purpose: Purpose, resolve: Resolver | None = None) -> None:
        self._check = partial(check_host, resolve=resolve, purpose=purpose)
        self._plain = httpcore2.AnyIOBackend()
        self.refusal = ""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await anyio.to_thread.run_sync(
                self._check, host, port, abandon_on_cancel=True
            )
        except EgressRefused as fault:
            self.refusal = fault.detail
            raise httpcore2.ConnectError(fault.detail) from fault
        # A dead address may use half of the time, not all of it.
        seconds = (timeout or CONNECT_SECONDS) / (1 if len(addresses) == 1 else 2)
        for address in addresses[:-1]:
            try:
                return await self._plain.connect_tcp(address, port, seconds, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._plain.connect_tcp(addresses[-1], port, seconds, None, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("Unix sockets cannot be contacted.")


@contextmanager
def following(
    client: httpx2.Client, url: str, *, check: Callable[[str], None] | None = None
) -> Iterator[httpx2.Response]:
    """Follow redirects and yield the final response with its body unread.

    `check` is called with every redirect's URL and raises if it must not be followed.
    """
    request = client.build_request("GET", url)
    for _ in range(MOST_REDIRECTS + 1):
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
        if check:
            check(str(request.url))
    raise httpx2.TooManyRedirects("Too many redirects.", request=request)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from `retry-after-ms` or `retry-after` (a number or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    raw = headers.get("retry-after")
    seconds = _number(raw)
    if seconds is not None or not raw:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(raw).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(raw: str | None) -> float | None:
    try:
        value = float(raw or "")
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
