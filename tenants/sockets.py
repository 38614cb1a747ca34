"""Identifies the client of a WebSocket, and the base class of consumers that push frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

from core.exceptions import Fault, SlowViewer, TooManyRequests, Unauthenticated
from core.fair_slots import FairSlots
from tenants.access import ANONYMOUS, Principal
from tenants.authentication import (
    key_in_headers,
    principal_from_session_key,
    principal_of_secret,
)
from tenants.exceptions import TooManySockets

#: The only subprotocol that the server accepts. It never echoes a key in a subprotocol.
SUBPROTOCOL = "switchyard.v1"
KEY_SUBPROTOCOL = "key."

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class SocketIdentity:
    """Sets `scope["principal"]` from a key in a header or subprotocol, or from the session cookie.

    A wrong key makes the client anonymous even with a valid cookie. A cookie only counts on sockets
    that a page of this server opened.
    """

    def __init__(self, inner: Application) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        principal = await database_sync_to_async(principal_from_scope)(scope)
        await self.inner({**scope, "principal": principal}, receive, send)


def principal_from_scope(scope: Scope) -> Principal:
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]}
    secret = key_in_headers(headers)
    if secret is None:
        secret = key_in_subprotocols(scope.get("subprotocols", []))
    if secret is not None:
        client = (scope.get("client") or ["unknown"])[0]
        try:
            return principal_of_secret(secret, client=client)
        except (Unauthenticated, TooManyRequests):
            return ANONYMOUS
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not session_key or not is_own_page(headers.get("origin"), headers.get("host", "")):
        return ANONYMOUS
    return principal_from_session_key(session_key)


def key_in_subprotocols(subprotocols: list[str]) -> str | None:
    """Return the key that the client offered as a subprotocol, as browsers cannot set headers."""
    for offered in subprotocols:
        if offered.startswith(KEY_SUBPROTOCOL):
            return offered.removeprefix(KEY_SUBPROTOCOL)
    return None


def is_own_page(origin: str | None, host: str) -> bool:
    """Return whether a page of this server, or of a trusted origin, opened the socket.

    Browsers send cookies with sockets that any site opens, so only the Origin tells them apart.
    """
    if not origin:
        return False
    from_page = urlsplit(origin)
    if from_page.netloc.lower() == host.lower():
        allowed = settings.ALLOWED_HOSTS or ["localhost", "127.0.0.1", "[::1]"]
        return validate_host(split_domain_port(host)[0], allowed)
    for trusted in map(urlsplit, settings.CSRF_TRUSTED_ORIGINS):
        if trusted.scheme == from_page.scheme and is_same_domain(
            from_page.netloc.lower(), trusted.netloc.lstrip("*")
        ):
            return True
    return False


log = structlog.get_logger(__name__)

CLOSE_CODES = 4000  #: Added to the HTTP status of a fault.
INTERNAL_ERROR = 1011
#: Bytes that a close frame has room for.
LONGEST_REASON = 123
#: The live connections of each key, or of each person without one.
open_sockets = FairSlots(each=lambda: settings.SOCKETS_PER_CALLER)
#: A client that takes longer than this for one frame is disconnected.
SEND_SECONDS = 20.0


def caller_of(principal: Principal) -> str | None:
    """Return the key or the person that a live connection counts for."""
    caller = principal.key or principal.user
    return f"{type(caller).__name__} {caller.pk}" if caller else None


def take_socket(principal: Principal) -> str | None:
    """Count a live connection, and return what to give back when it ends. Raise TooManySockets."""
    caller = caller_of(principal)
    if caller and not open_sockets.take(caller):
        raise TooManySockets
    return caller


@asynccontextmanager
async def counted_socket(principal: Principal) -> AsyncIterator[None]:
    """Count a live connection for as long as it lasts, or raise TooManySockets."""
    caller = take_socket(principal)
    try:
        yield
    finally:
        if caller:
            open_sockets.give_back(caller)


class PumpedConsumer(AsyncWebsocketConsumer):
    """Runs `send_frames` in a task for as long as the connection lasts."""

    # Consumers subscribe to the channel layer themselves, or share one subscription per process.
    channel_layer_alias = "unused"

    pumping: asyncio.Task[None] | None = None
    _caller: str | None = None

    @property
    def principal(self) -> Principal:
        return self.scope["principal"]

    async def send_frames(self) -> None:
        """Send frames until the connection ends."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the connection, and cancel the task however it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._caller:
                open_sockets.give_back(self._caller)
            if self.pumping:
                self.pumping.cancel()
                with suppress(asyncio.CancelledError):
                    await self.pumping

    async def connect(self) -> None:
        # A close code that is sent before accepting reaches browsers as 1006.
        offered = self.scope.get("subprotocols", [])
        await self.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        try:
            self._caller = take_socket(self.principal)
        except TooManySockets as fault:
            await self.close_for(fault)
            return
        self.pumping = asyncio.create_task(self._pump(), name=f"pump {self.scope['path']}")

    async def _pump(self) -> None:
        try:
            await self.send_frames()
        except Fault as fault:
            await self.close_for(fault)
        except Exception:
            log.exception("socket_failed", path=self.scope["path"])
            await self.close(code=INTERNAL_ERROR, reason=Fault().detail)

    async def close_for(self, fault: Fault) -> None:
        """Close with 4000 + the HTTP status of the fault and its message."""
        reason = fault.detail.encode()[:LONGEST_REASON].decode(errors="ignore")
        await self.close(code=CLOSE_CODES + fault.status, reason=reason)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer every message of the client with a pong."""
        await self.send(text_data='{"type":"pong"}')

    async def send_in_time(self, *texts: str) -> None:
        """Send frames, or raise SlowViewer when the client does not take one of them in time."""
        loop = asyncio.get_running_loop()
        try:
            # One deadline that moves with every frame. A timer for each would cost more than sending.
            async with asyncio.timeout(SEND_SECONDS) as deadline:
                for text in texts:
                    await self.send(text_data=text)
                    deadline.reschedule(loop.time() + SEND_SECONDS)
        except TimeoutError:
            raise SlowViewer from None
