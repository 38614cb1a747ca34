"""Adapts Daphne to what ASGI promises: backpressure, long messages and close reasons.

Daphne buffers without limit what a client does not read. Behind `Backpressure` a sender waits while
the buffer of the connection is full, so a slow client slows only its own sender; a client that reads
nothing for a minute is disconnected. Daphne drops the reason of a close, and applies the limit for
messages from clients to its own messages too; both are corrected here. WebSocket messages are written
to the connection directly, which takes a third of the time. Other servers are unaffected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, partialmethod
from io import BytesIO
from typing import IO, Any, cast

import structlog
from asgiref.sync import sync_to_async
from daphne.http_protocol import WebRequest
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import set_script_prefix
from twisted.internet.interfaces import IPushProducer
from twisted.internet.tcp import Connection as TCPConnection
from zope.interface import implementer

from core.db import release_connection
from core.responses import AwaitedResponse
from core.throttling import MOST_REQUESTS
from core.websocket import BINARY, WRITE_FRAME, encode_frame

log = structlog.get_logger(__name__)

#: A client that reads nothing for this long is disconnected.
STUCK_SECONDS = 60.0

Message = Mapping[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Any, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

request_threads = ThreadPoolExecutor(MOST_REQUESTS, thread_name_prefix="request")


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
        if self._open.is_set():
            return True
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
            case "websocket.send" if self._is_open and self._is_plain:
                self._watch_transport()
                self._write(_encode_message(message))
                await self._wait()
                return
            case "http.response.body" if message.get("more_body"):
                self._watch_response()
            case "http.response.body" if self._gate:
                self._connection.unregisterProducer()
                self._gate = None
        await self._send(message)
        await self._wait()

    def write_response(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write a whole response at once. Return False if it must be sent piece by piece."""
        write = getattr(self._connection, "write_response", None)
        return bool(write and write(status, headers, body))

    def write_frame(self, frame: bytes) -> bool:
        """Write an encoded frame now. Return False if something before it is not written yet."""
        if not self._is_open or not self._is_plain or self._is_buffering:
            return False
        self._watch_transport()
        self._write(frame)
        return True

    async def _wait(self) -> None:
        if self._gate and not await self._gate.wait():
            log.info("client_stuck")
            self._connection.transport.abortConnection()
            self._gate.stopProducing()

    def _write(self, data: bytes) -> None:
        """Write to the socket, and leave to Twisted only what the socket does not take now.

        Twisted would first wait until the socket is writable, at the price of two system calls.
        """
        transport = self._connection.transport
        if not self._is_buffering:
            written = transport.writeSomeData(data)
            # A lost connection is found again by the write of Twisted, which then cleans up.
            data = data[written:] if isinstance(written, int) else data
        if data:
            transport.write(data)

    @property
    def _is_buffering(self) -> bool:
        """Whether Twisted holds bytes that must be written first."""
        transport = self._connection.transport
        return bool(transport.dataBuffer or transport._tempDataLen)

    @property
    def _is_open(self) -> bool:
        """Whether the socket was accepted. Daphne itself refuses other sockets over HTTP."""
        return self._connection.state == self._connection.STATE_OPEN

    @property
    def _is_plain(self) -> bool:
        """Whether bytes can be written past autobahn: not compressed and not encrypted."""
        transport = self._connection.transport
        is_socket = isinstance(transport, TCPConnection) and not transport.TLS
        return is_socket and self._connection._perMessageCompress is None

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


def _encode_message(message: Message) -> bytes:
    if (text := message.get("text")) is not None:
        return encode_frame(text.encode())
    return encode_frame(message["bytes"], BINARY)


class Backpressure:
    """Wraps an ASGI application so that its `send` waits for slow clients."""

    def __init__(self, inner: Application) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        sender = with_backpressure(send)
        if isinstance(sender, BackpressureSend) and scope["type"] == "websocket":
            extensions = scope.get("extensions") or {}
            scope = {**scope, "extensions": {**extensions, WRITE_FRAME: sender.write_frame}}
        await self.inner(scope, receive, sender)


def with_backpressure(send: Send) -> Send:
    """Wrap `send` if it is Daphne's, which is a partial of its server and one connection."""
    if isinstance(send, partial) and send.args and hasattr(send.args[0], "registerProducer"):
        return BackpressureSend(send, send.args[0])
    return send


def disable_form_parsing() -> None:
    """Leave form bodies to Django. Call it once per process, before the first request."""
    WebRequest.__init__ = partialmethod(WebRequest.__init__, parsePOSTFormSubmission=False)


def leave_connections_to_handler() -> None:
    """Let no signal look through all connections: the handler below returns each after its request."""
    request_started.disconnect(reset_queries)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)


class OneThreadHandler(ASGIHandler):
    """Runs a request from its first signal to its last in one call on one thread of a pool.

    Django starts a thread for each request and hands over to it three times.
    """

    def __init__(self) -> None:
        super().__init__()
        self._respond_on_thread = sync_to_async(
            self._respond, thread_sensitive=False, executor=request_threads
        )

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def read_body(self, receive: Receive) -> IO[bytes]:
        """Return the body, which Daphne has read completely: long ones arrive in several messages."""
        first = await receive()
        if first["type"] == "http.request" and not first.get("more_body"):
            return BytesIO(first.get("body", b""))
        messages = [first]

        async def receive_rest() -> Message:
            return messages.pop() if messages else await receive()

        return await super().read_body(receive_rest)

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send a short response in one piece if the server can write it so."""
        if isinstance(response, HttpResponse) and isinstance(send, BackpressureSend):
            body = response.content
            if len(body) <= self.chunk_size and not response.cookies:
                headers = [(n.encode("ascii"), v.encode("latin1")) for n, v in response.items()]
                if send.write_response(response.status_code, headers, body):
                    return
        await super().send_response(response, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. A view runs to its end even if the client leaves; a stream ends then."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            request, refusal = self.create_request(scope, body)
            if request is None:
                response = cast("HttpResponseBase", refusal)
            else:
                response = await self._respond_on_thread(scope, request)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)

    def _respond(self, scope: Scope, request: HttpRequest) -> HttpResponseBase:
        try:
            set_script_prefix(get_script_prefix(scope))
            request_started.send(sender=type(self), scope=scope)
            response = self.get_response(request)
            if isinstance(response, FileResponse):
                response.block_size = self.chunk_size
            if not response.streaming:
                response.close()
            return response
        finally:
            # When the client hangs up, this thread outlives the request.
            release_connection()

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send a stream until it ends or the client leaves."""
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        sending = asyncio.create_task(self._send_stream(response, send))
        try:
            await asyncio.wait([leaving, sending], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
            # On the thread that reads the stream if it is a synchronous one.
            await sync_to_async(self._close)(response)

    async def _send_stream(self, response: HttpResponseBase, send: Send) -> None:
        if isinstance(response, AwaitedResponse):
            await response.resolve()
        await self.send_response(response, send)

    def _close(self, response: HttpResponseBase) -> None:
        try:
            response.close()
        finally:
            release_connection()
