"""Limits what Daphne reads from a client: the size of a body, and the time for headers and body.

Daphne stores a body completely before the application sees its request. Here a long body is read only
when its sender is known, up to the limit of the view that it is for. What is refused is answered at
once, and the rest of it is thrown away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import orjson
import structlog
from daphne import http_protocol
from django.conf import settings
from django.urls import Resolver404, resolve
from twisted.protocols.basic import LineReceiver
from twisted.web.http import NO_BODY_CODES, RESPONSES, HTTPChannel

from core.db import read
from core.exceptions import RequestTooLarge, RequestTooSlow
from core.problems import CONTENT_TYPE, UNEXPECTED, problem_body, problem_of

log = structlog.get_logger(__name__)

#: Bytes that are read from anyone, and kept in memory.
SMALL_BODY = 1024 * 1024
#: Seconds in which the headers of a request must arrive.
HEADER_SECONDS = 20.0
#: A body may take this long, and a second more for each of so many bytes.
BODY_SECONDS, BYTES_PER_SECOND = 30.0, 4096
#: A client that sends nothing for longer is disconnected.
IDLE_SECONDS = 60.0
#: How long the rest of a refused body is thrown away, so that its sender can read the answer.
LINGER_SECONDS = 5.0

#: Raises a fault if the sender of these headers, at this address, is unknown.
Identify = Callable[[Mapping[str, str], str], None]


def largest_body(path: str) -> int:
    """Return the most bytes that the view at a path accepts."""
    for tried in (path, f"{path}/"):
        try:
            view = resolve(tried).func
        except Resolver404:
            continue
        view = getattr(view, "cls", None) or getattr(view, "view_class", None) or view
        return int(getattr(view, "largest_body", settings.DATA_UPLOAD_MAX_MEMORY_SIZE))
    return SMALL_BODY


class LimitedRequest(http_protocol.WebRequest):
    """A request whose body is kept in memory unless it is long, and whose response is one write."""

    def gotLength(self, length: int | None) -> None:
        is_small = length is not None and length <= SMALL_BODY
        self.content = BytesIO() if is_small else SpooledTemporaryFile(max_size=SMALL_BODY)  # noqa: SIM115 - closed with the request

    _response_started: bool

    def write_response(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole response, or return False for what Twisted has to look at.

        Its own way handles every header several times.
        """
        if self.finished or self.channel is None:
            return True
        special = self._response_started or self.method == b"HEAD" or status in NO_BODY_CODES
        if special or self.server.action_logger:
            return False
        lines = [b"%b %d %b" % (self.clientproto, status, RESPONSES.get(status, b"Unknown"))]
        lines += [b"%b: %b" % header for header in headers]
        for name, values in self.responseHeaders.getAllRawHeaders():  # such as `Connection: close`
            lines += [b"%b: %b" % (name, value) for value in values]
        head = b"\r\n".join(lines)
        ends = len(lines) - 1
        if b"\r\nContent-Length: " not in head or (head.count(b"\r"), head.count(b"\n")) != (
            ends,
            ends,
        ):
            return False
        self._response_started, self.startedWriting = True, 1
        self.setResponseCode(status)
        self.channel.write(b"%b\r\n\r\n%b" % (head, body))
        self.sentLength = len(body)
        self.finish()
        return True


#: Twisted has types for parts of it only.
Channel: Any = HTTPChannel


class LimitedChannel(Channel):
    """A connection that reads a request only as fast and as far as the limits allow."""

    identify: Identify

    _has_begun = _is_waiting = _is_refused = _must_continue = False
    _received, _body_began = 0, 0.0
    #: The most bytes of this body, once its sender is known.
    _limit: int | None = None

    def dataReceived(self, data: bytes) -> None:
        if self._is_refused:
            return
        # More bytes of the headers do not extend their time.
        if not self._has_begun and not self._handlingRequest:
            self._has_begun = True
            self.setTimeout(HEADER_SECONDS)
        LineReceiver.dataReceived(self, data)  # type: ignore[no-untyped-call]

    def allHeadersReceived(self) -> None:
        self._received, self._limit, self._body_began = 0, None, time.monotonic()
        if self.length is None or self.length > 0:
            self.setTimeout(BODY_SECONDS)
        if self.length is not None and self.length > SMALL_BODY:
            self._check_sender()
        super().allHeadersReceived()

    def rawDataReceived(self, data: bytes) -> None:
        if self._is_refused:
            return
        if not self._handlingRequest:
            self._received += len(data)
            self._extend_time()
            if self.length is None and not self._is_waiting:
                self._count_chunks()
        if not self._is_refused:
            super().rawDataReceived(data)

    def allContentReceived(self) -> None:
        self._has_begun = False
        self.timeOut = IDLE_SECONDS  # when the request is done
        super().allContentReceived()

    def timeoutConnection(self) -> None:
        if self._has_begun and not self._is_refused:
            self._write(RequestTooSlow())
        super().timeoutConnection()

    def _count_chunks(self) -> None:
        """Apply the limits to a body that does not say how long it is."""
        if self._received <= (self._limit or SMALL_BODY):
            return
        if self._limit:
            self._refuse(RequestTooLarge())
        else:
            self._check_sender()

    def _extend_time(self) -> None:
        """Give a body a little time for every byte of it that has arrived."""
        earned = BODY_SECONDS + self._received / BYTES_PER_SECOND
        left = self._body_began + earned - time.monotonic()
        self.setTimeout(max(0.0, min(left, IDLE_SECONDS)))

    def _check_sender(self) -> None:
        """Read no further until the sender is known and the view has said what it accepts."""
        self._is_waiting = True
        self._networkProducer.pauseProducing()
        asyncio.ensure_future(self._admit(self.requests[-1]))  # noqa: RUF006 - bounded by the pool

    async def _admit(self, request: Any) -> None:
        try:
            limit = await read(self._find_limit, request)
            if self.length is not None and self.length > limit:
                raise RequestTooLarge
        except Exception as error:  # noqa: BLE001 - every failure is an answer
            outcome: int | Exception = error
        else:
            outcome = limit
        self._is_waiting = False
        is_over = self.transport is None or not self.transport.connected
        if not is_over and request in self.requests and not self._handlingRequest:
            self._go_on(outcome)

    def _find_limit(self, request: Any) -> int:
        headers = {
            name.decode("latin1").lower(): values[0].decode("latin1")
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        self.identify(headers, str(getattr(self.transport.getPeer(), "host", "unknown")))
        return largest_body(unquote(self._path.partition(b"?")[0].decode("latin1")))

    def _go_on(self, outcome: int | Exception) -> None:
        if isinstance(outcome, Exception):
            self._refuse(outcome)
            return
        self._limit = outcome
        if self._must_continue:
            self._must_continue = False
            super()._send100Continue()
        self._networkProducer.resumeProducing()

    def _send100Continue(self) -> None:
        if self._is_waiting:
            self._must_continue = True
        else:
            super()._send100Continue()

    def _refuse(self, error: Exception) -> None:
        """Answer now, and throw away what still comes: closing at once could lose the answer."""
        self._is_refused = True
        self._write(error)
        self.transport.loseWriteConnection()
        self.setTimeout(LINGER_SECONDS)
        self._networkProducer.resumeProducing()

    def _write(self, error: Exception) -> None:
        problem = problem_of(error) or UNEXPECTED
        request_id = str(uuid4())
        log.info("request_refused", code=problem.code, request_id=request_id)
        body = orjson.dumps(problem_body(problem, request_id))
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            "X-Request-ID": request_id,
            "Connection": "close",
            **problem.headers,
        }
        reason = RESPONSES.get(problem.status, b"Refused").decode()
        lines = [f"HTTP/1.1 {problem.status} {reason}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)


def limit_requests(identify: Identify) -> None:
    """Make Daphne use these limits. Call it once per process, before the first connection."""
    LimitedChannel.identify = staticmethod(identify)
    http_protocol.WebRequest = LimitedRequest
    http_protocol.HTTPFactory.protocol = LimitedChannel
