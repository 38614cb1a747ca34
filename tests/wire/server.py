"""The base of all wire servers: a script of answers and a record of requests."""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import ClassVar, Self

from tests.wire.answers import JSON, Answer, Refuse, Reply, Script
from tests.wire.exchange import Exchange, Received


class Wire:
    """A local server with scripted answers.

    `with GeminiWire([Answer(text=("hi",))]) as wire:` gives `wire.url` to connect to. The script
    is a list, used up one by one, or a function of the request's body; `say` adds to the list.
    When nothing is left, `otherwise` is answered.
    """

    #: Added to the address that clients are given.
    PREFIX: ClassVar[str] = ""
    #: Whether the vendor sends characters beyond ASCII as escapes.
    ESCAPES: ClassVar[bool] = True
    #: Whether the vendor names the type of an event before its data.
    NAMED: ClassVar[bool] = False

    def __init__(
        self,
        script: Iterable[Reply] | Script = (),
        *,
        key: str = "test-key-0123456789",
        otherwise: Reply | None = None,
    ) -> None:
        self.key = key
        self.requests: list[Received] = []
        self._function = script if callable(script) else None
        self._replies: deque[Reply] = deque(() if callable(script) else script)
        self._otherwise = otherwise or Answer(text=("ok",))
        self._lock = Lock()
        self.closing = Event()
        self.connections: set[socket.socket] = set()
        #: How many connections clients have opened so far.
        self.opened = 0

    def say(self, *replies: Reply) -> None:
        """Add replies to the end of the script."""
        self._replies.extend(replies)

    def next_reply(self, body: JSON) -> Reply:
        if self._function:
            return self._function(body)
        with self._lock:
            return self._replies.popleft() if self._replies else self._otherwise

    # Each vendor implements these.

    def respond(self, exchange: Exchange) -> None:
        """Check the request by the vendor's rules and send the answer."""
        raise NotImplementedError

    def error_body(self, refusal: Refuse, param: str = "") -> JSON:
        """Return an error in the vendor's format."""
        raise NotImplementedError

    # Starting and stopping.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.PREFIX}"

    def __enter__(self) -> Self:
        self._server = WireServer(("127.0.0.1", 0), Exchange)
        self._server.wire = self
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        # Clients keep connections open; a stopped server must not answer on them.
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()


class WireServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    wire: Wire

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that leave; any other error is a bug in the test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]
