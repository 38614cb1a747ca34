"""Makes Daphne's `send` do what ASGI means: wait for the client, send all, say why a socket is closed.

Daphne buffers without limit what a client does not read. Behind this wrapper a sender waits while
the connection's buffer is full, so a slow client slows its own sender and nobody's memory fills.
A client that reads nothing at all for long is cut off. Of a close Daphne passes on the code alone; the
reason is added here. What clients may send at most, Daphne holds its own side to as well; a longer
message goes out by a way that has no such bound. Servers that do all by themselves are left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, partialmethod
from typing import Any

import structlog
from daphne.http_protocol import WebRequest
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

log = structlog.get_logger(__name__)

#: A client that takes nothing for so long is gone.
STUCK_SECONDS = 60.0
#: Bytes of a character, at most.
LARGEST_CHARACTER = 4

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Any, Send], Awaitable[None]]


@implementer(IPushProducer)
class Gate:
    """Twisted closes it while a connection's buffer is full. Names and calls are Twisted's."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def pauseProducing(self) -> None:
        self._open.clear()

    def resumeProducing(self) -> None:
        self._open.set()

    def stopProducing(self) -> None:
        self._open.set()

    async def passable(self) -> bool:
        """Wait until more may be sent. False when that takes too long."""
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self._open.wait()
        except TimeoutError:
            return False
        return True


class PatientSend:
    """Sends on one connection of Daphne, waiting after what did not fit into its buffer."""

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
        if self._gate and not await self._gate.passable():
            log.info("client_stuck")
            self._connection.transport.abortConnection()
            self._gate.stopProducing()

    def _is_long(self, message: Message) -> bool:
        """Whether it may have more bytes than a client may send."""
        bound = self._connection.maxMessagePayloadSize
        return self._is_open and 0 < bound < len(message.get("text") or "") * LARGEST_CHARACTER

    def _send_long(self, message: Message) -> None:
        self._connection.beginMessage(isBinary=False)
        self._connection.sendMessageFrame(message["text"].encode())
        self._connection.endMessage()

    @property
    def _is_open(self) -> bool:
        """A socket that was never accepted is refused by Daphne itself, over HTTP."""
        return self._connection.state == self._connection.STATE_OPEN

    def _watch_transport(self) -> None:
        transport = self._connection.transport
        if self._gate is None and transport is not None:
            self._gate = Gate()
            transport.unregisterProducer()  # the HTTP side, which is done since the upgrade
            transport.registerProducer(self._gate, True)

    def _watch_response(self) -> None:
        if self._gate is None and self._connection.channel is not None:
            self._gate = Gate()
            self._connection.registerProducer(self._gate, True)


class Backpressure:
    """Wraps an ASGI application."""

    def __init__(self, inner: Application) -> None:
        self.inner = inner
        leave_forms_alone()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        await self.inner(scope, receive, patient(send))


def leave_forms_alone() -> None:
    """Twisted would read every form on the event loop before Django does, and hang up on a bad one."""
    manner = partialmethod(WebRequest.__init__, parsePOSTFormSubmission=False)
    WebRequest.__init__ = manner


def patient(send: Send) -> Send:
    """A send that waits, if this one is Daphne's: its server bound to one connection."""
    if isinstance(send, partial) and send.args and hasattr(send.args[0], "registerProducer"):
        return PatientSend(send, send.args[0])
    return send
