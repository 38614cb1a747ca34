"""Tests the responses that the web server writes in one piece, on real connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.web.http_headers import Headers

from core.request_limits import LimitedRequest
from tests.core.raw_http import small_server
from tests.core.test_backpressure import read_all

MISSING = "/api/v1/missing/"


@pytest.mark.django_db(transaction=True)
def test_a_short_response_is_written_past_twisted_and_keeps_what_http_asks_for():
    with small_server() as server:
        with server.request(MISSING, "X-Request-ID: first-one\r\n") as client:
            head, _, body = client.recv(1 << 16).partition(b"\r\n\r\n")
            client.sendall(f"GET {MISSING} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            second = client.recv(1 << 16)
        with server.request(MISSING, "Connection: close\r\n") as client:
            closed = read_all(client)
        with server.request(MISSING, "Connection: close\r\n", method="HEAD") as client:
            headed = read_all(client)

    assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
    # Twisted would write `X-Request-Id`.
    assert b"\r\nX-Request-ID: first-one\r\n" in head
    assert f"\r\nContent-Length: {len(body)}".encode() in head
    assert b"Transfer-Encoding" not in head
    assert second.startswith(b"HTTP/1.1 404")
    assert b"\r\nconnection: close" in closed.lower()
    assert headed.startswith(b"HTTP/1.1 404")
    assert headed.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        ([(b"X-Name", b"a\r\nX-Other: b"), (b"Content-Length", b"2")], b"GET", 200),
        ([(b"X-Name", b"a\nb"), (b"Content-Length", b"2")], b"GET", 200),
        ([(b"X-Name", b"a")], b"GET", 200),
        ([(b"Content-Length", b"2")], b"HEAD", 200),
        ([(b"Content-Length", b"2")], b"GET", 304),
    ],
    ids=["a second header", "a line feed", "no length", "only the head", "no body"],
)
def test_what_is_not_plain_is_left_to_twisted(headers, method, status):
    request: Any = LimitedRequest.__new__(LimitedRequest)
    request.finished, request._response_started = 0, False
    request.channel = None  # never written to: a closed connection swallows everything
    assert request.write_response(status, headers, b"{}")

    request.channel, request.method, request.clientproto = object(), method, b"HTTP/1.1"
    request.responseHeaders, request.server = Headers(), SimpleNamespace(action_logger=None)
    assert not request.write_response(status, headers, b"{}")
