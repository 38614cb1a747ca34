"""Adapts Daphne to what ASGI promises: backpressure, long messages and close reasons.

Daphne buffers without limit what a client does not read. Behind `Backpressure` a sender waits while
the buffer of the connection is full, so a slow client slows only its own sender; a client that reads
nothing for a minute is disconnected. Daphne drops the reason of a close, and applies the limit for
messages from clients to its own messages too; both are corrected here. Other servers are unaffected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, partialmethod
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from daphne.http_protocol import WebRequest
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

log = structlog.get_logger(__name__)

#: A client that reads nothing for this long is disconnected.
STUCK_SECONDS = 60.0
MAX_BYTES_PER_CHARACTER = 4

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Any, Send], Awaitable[None]]


@implementer(IPushProducer)
class Gate:
    """A producer that Twisted pauses while the buffer of a connection is full."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def pauseProducing(self) -> None:
        self._open.clear()

    def resumeProducing(self) -> None:
        self._open.set()

    def stopProducing(self) -> None:
        self._open.set()

    async def wait(self) -> bool:
        """Wait until more may be sent. Return False when that takes too long."""
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self._open.wait()
        except TimeoutError:
            return False
        return True


class BackpressureSend:
    """Sends on one connection of Daphne and waits while its buffer is full."""

    def __init__(self, send: Send, connection: Any) -> None:
        self._send = send
        self._connection = connection
        self._gate: Gate | None = None

    async def __call__(self, message: Message) -> None:
        match message["type"]:
            case "websocket.close" if message.get("reason") and self._is_open:
                reason = message["reason"].encode()
                self._connection.sendCloseFrame(code=message["code"], reasonUtf8=reason)
                return
            case "websocket.send":
                self._watch_transport()
                if self._is_long(message):
                    self._send_long(message)
                    await self._wait()
                    return
            case "http.response.body" if message.get("more_body"):
                self._watch_response()
            case "http.response.body" if self._gate:
                self._connection.unregisterProducer()
                self._gate = None
        await self._send(message)
        await self._wait()

    async def _wait(self) -> None:
        if self._gate and not await self._gate.wait():
            log.info("client_stuck")
            self._connection.transport.abortConnection()
            self._gate.stopProducing()

    def _is_long(self, message: Message) -> bool:
        """Return whether the message may be longer than messages from clients may be."""
        limit = self._connection.maxMessagePayloadSize
        length = len(message.get("text") or "") * MAX_BYTES_PER_CHARACTER
        return self._is_open and 0 < limit < length

    def _send_long(self, message: Message) -> None:
        self._connection.beginMessage(isBinary=False)
        self._connection.sendMessageFrame(message["text"].encode())
        self._connection.endMessage()

    @property
    def _is_open(self) -> bool:
        """Whether the socket was accepted. Daphne itself refuses other sockets over HTTP."""
        return self._connection.state == self._connection.STATE_OPEN

    def _watch_transport(self) -> None:
        transport = self._connection.transport
        if self._gate is None and transport is not None:
            self._gate = Gate()
            transport.unregisterProducer()  # the HTTP side, which ended with the upgrade
            transport.registerProducer(self._gate, True)

    def _watch_response(self) -> None:
        if self._gate is None and self._connection.channel is not None:
            self._gate = Gate()
            self._connection.registerProducer(self._gate, True)


class Backpressure:
    """Wraps an ASGI application so that its `send` waits for slow clients."""

    def __init__(self, inner: Application) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        await self.inner(scope, receive, with_backpressure(send))


def with_backpressure(send: Send) -> Send:
    """Wrap `send` if it is Daphne's, which is a partial of its server and one connection."""
    if isinstance(send, partial) and send.args and hasattr(send.args[0], "registerProducer"):
        return BackpressureSend(send, send.args[0])
    return send


def disable_form_parsing() -> None:
    """Leave form bodies to Django. Call it once per process, before the first request."""
    WebRequest.__init__ = partialmethod(WebRequest.__init__, parsePOSTFormSubmission=False)


class OneThreadHandler(ASGIHandler):
    """Runs the whole middleware chain and the view of a request in one thread."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)
