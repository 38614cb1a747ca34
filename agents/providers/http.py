"""The HTTP clients for model providers, one of each kind per process.

The shared client reaches the vendors and the operator's servers. The guarded client reaches servers
whose address a member typed, which could lead into the operator's network, at public addresses only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import httpcore2
import httpx2

from agents.exceptions import AnswerTooLarge
from core.exceptions import EgressRefused
from core.http import GuardedBackend, resolve_host

#: A worker may wait for this many answers at the same time.
CONCURRENT_STREAMS = 1_000
IDLE_CONNECTIONS = 100
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
#: Bytes of one event of a stream, and of a whole body that is no stream, such as embeddings.
MAX_EVENT_BYTES = 4_000_000
MAX_BODY_BYTES = 16_000_000
#: Bytes of a whole stream. A token takes about 300.
MAX_STREAM_BYTES = 200_000_000
#: Bytes of an error that are read. Its reason is at the beginning.
MAX_ERROR_BYTES = 64_000
#: Compressed bodies could not be bounded by the bytes that arrive.
HEADERS = {"Accept-Encoding": "identity"}


def bound_response(response: httpx2.Response) -> None:
    """Bound what is read of a response, before any of its body is."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise httpx2.DecodingError(f"The answer is compressed ({encoding[:20]}).")
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = BoundedStream(response.stream, response)


class BoundedStream(httpx2.SyncByteStream):
    """The body of a response, which ends or raises AnswerTooLarge at its bounds.

    SDKs keep an event of a stream until the blank line after it, and any other body until its end.
    """

    def __init__(self, stream: httpx2.SyncByteStream, response: httpx2.Response) -> None:
        self._stream = stream
        self._is_error = response.is_error
        self._is_event_stream = "event-stream" in response.headers.get("content-type", "")

    def __iter__(self) -> Iterator[bytes]:
        if self._is_error:
            return self._beginning()
        return self._events() if self._is_event_stream else self._whole(MAX_BODY_BYTES)

    def close(self) -> None:
        self._stream.close()

    def _beginning(self) -> Iterator[bytes]:
        left = MAX_ERROR_BYTES
        for piece in self._stream:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    def _whole(self, most: int) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > most:
                raise AnswerTooLarge(f"The model server sent more than {most:,} bytes.")
            yield piece

    def _events(self) -> Iterator[bytes]:
        size, end = 0, b""
        for piece in self._whole(MAX_STREAM_BYTES):
            seen = end + piece
            blank = max(seen.rfind(b"\n\n"), seen.rfind(b"\r\n\r\n"))
            size = len(seen) - blank if blank >= 0 else size + len(piece)
            if size > MAX_EVENT_BYTES:
                raise AnswerTooLarge(
                    f"The model server sent an event of more than {MAX_EVENT_BYTES:,} bytes."
                )
            end = seen[-3:]
            yield piece


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split a stream at line feeds only: answers may contain others that Python splits at."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


@cache
def shared_client() -> httpx2.Client:
    """Return the process's HTTP client, created on first use."""
    return httpx2.Client(
        limits=httpx2.Limits(
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
        ),
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
        headers=HEADERS,
        event_hooks={"response": [bound_response]},
    )


@cache
def guarded_client() -> httpx2.Client:
    """Return the process's guarded HTTP client, created on first use."""
    return httpx2.Client(
        transport=GuardedPool(),
        timeout=httpx2.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS),
        trust_env=False,
        # A redirect could carry the key in a header to another host.
        follow_redirects=False,
        headers=HEADERS,
        event_hooks={"response": [bound_response]},
    )


# A child must not use its parent's sockets.
os.register_at_fork(after_in_child=shared_client.cache_clear)
os.register_at_fork(after_in_child=guarded_client.cache_clear)


class GuardedPool(httpx2.HTTPTransport):
    """A connection pool that connects to checked addresses only."""

    def __init__(self) -> None:
        # The parent's __init__ is skipped: it would create a pool that connects anywhere.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=CONCURRENT_STREAMS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=ModelServerBackend("models", resolve_host),
        )


class ModelServerBackend(GuardedBackend):
    """Raises the connection error that adapters expect when an address is refused."""

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        try:
            return super().connect_tcp(*args, **options)
        except EgressRefused as refusal:
            raise httpcore2.ConnectError(refusal.detail) from refusal
