"""One connection to a wire server: reads requests, and sends answers with the scripted failures."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from tests.wire.answers import JSON, Answer, BadRequest, Refuse

if TYPE_CHECKING:
    from tests.wire.server import WireServer


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request, and how it ended."""

    method: str
    path: str
    headers: dict[str, str]
    body: JSON
    #: Set when the client left before the answer was complete.
    abandoned: Event = field(default_factory=Event)
    #: Set when the answer was sent to its end.
    answered: Event = field(default_factory=Event)


class ClientLeft(Exception):
    """The client closed its side."""


class Exchange(BaseHTTPRequestHandler):
    """One connection; `respond` of the wire is called for each of its requests."""

    protocol_version = "HTTP/1.1"
    received: Received

    def setup(self) -> None:
        super().setup()
        self.wire = cast("WireServer", self.server).wire
        self.wire.connections.add(self.connection)
        self.wire.opened += 1
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._take("GET")

    def do_POST(self) -> None:
        self._take("POST")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def finish(self) -> None:
        self.wire.connections.discard(self.connection)
        # The client may have left, and then nothing reads the rest.
        with suppress(OSError):
            super().finish()

    def _take(self, method: str) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.received = Received(
            method=method, path=self.path, headers=headers, body=json.loads(raw) if raw else {}
        )
        self.wire.requests.append(self.received)
        try:
            self.wire.respond(self)
            self.received.answered.set()
        except BadRequest as error:
            self.refuse(error.refusal, error.param)
        except (ClientLeft, ConnectionError):
            self.received.abandoned.set()
            self.close_connection = True

    def send_json(
        self, body: JSON, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_text(json.dumps(body), "application/json", status, headers)

    def send_text(
        self, text: str, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        raw = text.encode()
        self.send_response(status)
        for name, value in {"content-type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def refuse(self, refusal: Refuse, param: str = "") -> None:
        if refusal.body is not None:
            self.send_text(refusal.body, "text/html", refusal.status, dict(refusal.headers))
            return
        body = self.wire.error_body(refusal, param)
        self.send_json(body, refusal.status, dict(refusal.headers))

    def send_stream(
        self, answer: Answer, chunks: Iterator[JSON], *, lead: int = 0, end: str = ""
    ) -> None:
        """Send chunks as server-sent events, with the failures that the answer scripts.

        The first `lead` chunks say nothing yet and are not counted.
        """
        self.send_response(answer.status)
        for name, value in {"content-type": "text/event-stream", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if answer.raw is not None:
            for piece in answer.raw:
                self._write(piece)
            self.wfile.write(b"0\r\n\r\n")
            return
        for number, chunk in enumerate(chunks, start=-lead):
            if number == answer.cut_after:
                self._drop()
                return
            if number == answer.end_after:
                self.wfile.write(b"0\r\n\r\n")
                return
            self._pause(answer.delay)
            named = f"event: {chunk['type']}\r\n" if self.wire.NAMED else ""
            data = json.dumps(chunk, ensure_ascii=self.wire.ESCAPES)
            self._write(f"{named}data: {data}\r\n\r\n")
            while number == 0 and answer.hold and not answer.hold.is_set():
                self._pause(0.02)
        if end:
            self._write(end)
        if answer.cut_at_end:
            self._drop()
            return
        self.wfile.write(b"0\r\n\r\n")

    def _write(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))

    def _pause(self, seconds: float) -> None:
        """Wait, and raise if the client leaves in the meantime."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, until - time.monotonic())
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.1))
            if self.wire.closing.is_set() or (readable and self._client_left()):
                raise ClientLeft
            if left <= 0:
                return

    def _client_left(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
