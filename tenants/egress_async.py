"""The guard of `tenants.egress` for asynchronous clients, with a bound on what one answer may hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio.to_thread
import httpcore2
import httpx2

from config.faults import EgressRefused
from tenants.egress import CONNECT_SECONDS, Resolver, check_host, shared_ssl_context


class AsyncGuardedTransport(httpx2.AsyncHTTPTransport):
    """HTTP to checked addresses only. It remembers how the other side last answered.

    A client library may swallow an error and go on; `refusal` and `status` say what it met.
    """

    def __init__(self, *, largest: int, resolve: Resolver | None = None) -> None:
        # Not the parent's: it would build a pool that connects anywhere.
        self._backend = AsyncGuardedBackend(resolve)
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
        """Why this side would not go on, if it was this side."""
        return self._backend.refusal or self._too_large

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A small compressed answer may unfold into one that fills the memory.
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        self.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            self._too_large = "It answers compressed, which was not asked for."
            raise httpx2.ReadError(self._too_large, request=request)
        response.stream = BoundedAsyncStream(response.stream, self._largest, self._refuse)
        return response

    def _refuse(self) -> httpx2.ReadError:
        self._too_large = f"It sent more than {self._largest:,} bytes in one answer."
        return httpx2.ReadError(self._too_large)


class BoundedAsyncStream(httpx2.AsyncByteStream):
    """The body of an answer, as far as it is not too large."""

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
    """Connects to checked addresses only, and says a refusal in words that clients understand."""

    def __init__(self, resolve: Resolver | None = None) -> None:
        self._resolve = resolve
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
                check_host, host, port, self._resolve, abandon_on_cancel=True
            )
        except EgressRefused as fault:
            self.refusal = fault.detail
            raise httpcore2.ConnectError(fault.detail) from fault
        # A dead address takes half of the time, not all of it.
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
        raise httpcore2.ConnectError("Sockets of this machine are not contacted.")
