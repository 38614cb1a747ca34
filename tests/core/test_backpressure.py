"""Tests of the real web server with clients that do not read and with closed sockets."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from autobahn.websocket.protocol import PreparedMessage
from twisted.internet.tcp import Connection as TCPConnection

from core.server import BackpressureSend
from core.websocket import encode_frame
from tests.core.flood import PIECE, PIECES

ROOT = Path(__file__).parents[2]
#: The most that the kernel and the server may buffer for a client that does not read.
MOST_BUFFERED = 8 * 1024 * 1024
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Server:
    """A running Daphne on a Unix socket."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/web"

    def request(self, path: str, headers: str = "", method: str = "GET") -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)  # which waits while the server's backlog is full
        client.settimeout(60)
        client.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        return client

    def sent(self) -> int:
        """Return how many pieces the application has sent."""
        with self.request("/report", "Connection: close\r\n") as client:
            return int(read_all(client).rpartition(b"\r\n\r\n")[2])

    def settled(self) -> int:
        """Wait until no more pieces are sent and return their number."""
        before, sent = -1, 0
        while sent != before or sent == 0:
            time.sleep(0.5)
            before, sent = sent, self.sent()
        return sent


def read_all(client: socket.socket) -> bytes:
    received = bytearray()
    while data := client.recv(1 << 20):
        received += data
    return bytes(received)


@contextmanager
def running(
    module: str = "tests.core.flood", options: Sequence[str] = (), **environment: str
) -> Iterator[Server]:
    """Run Daphne with the application of a module, which is the flooding one by default."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        command = [sys.executable, "-m", "daphne", "-v", "0", "-u", server.path, *options]
        with subprocess.Popen(
            [*command, f"{module}:application"],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                while not Path(server.path).exists():
                    assert process.poll() is None
                    time.sleep(0.05)
                yield server
            finally:
                process.terminate()


@pytest.mark.parametrize("headers", ["", UPGRADE], ids=["http", "websocket"])
def test_a_client_that_does_not_read_stops_the_sender_and_loses_nothing(headers):
    with running() as server, server.request("/flood", headers) as client:
        assert server.settled() * PIECE < MOST_BUFFERED

        received = 0
        while received < PIECE * PIECES:
            received += len(client.recv(1 << 20))
        assert server.settled() == PIECES


@pytest.mark.parametrize("headers", ["", UPGRADE], ids=["http", "websocket"])
def test_a_client_that_never_reads_is_cut_off(headers):
    with running(STUCK_SECONDS="0.5") as server, server.request("/flood", headers) as client:
        while server.sent() < PIECES:
            time.sleep(0.1)
        assert len(read_all(client)) < MOST_BUFFERED


def test_a_form_that_cannot_be_parsed_is_left_to_the_application():
    form = "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 7\r\n"
    with running() as server:
        ask = f"{form}Connection: close\r\n\r\n--x--\r\n"
        with server.request("/report", ask, method="POST") as client:
            assert read_all(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("code", [4404, 1011])
def test_a_socket_is_closed_with_its_code_and_the_reason(code):
    with running() as server, server.request(f"/close?{code}", UPGRADE) as client:
        closing = code.to_bytes(2) + b"Say it"
        received = b""
        while closing not in received:
            more = client.recv(4096)
            assert more, received
            received += more


@pytest.mark.parametrize("characters", [10, 3 * 1024 * 1024])
def test_a_message_of_any_length_arrives_completely_and_in_order(characters):
    with running() as server, server.request(f"/long?{characters}", UPGRADE) as client:
        received = b""
        while not received.endswith(b"what comes after"):
            more = client.recv(1 << 20)
            assert more, received[-200:]
            received += more
        assert received.count("é".encode()) == characters


def test_frames_that_are_written_at_once_keep_their_order_with_others():
    with running() as server, server.request("/direct", UPGRADE) as client:
        time.sleep(1)  # The client reads nothing, so the server cannot write everything at once.
        received, last = bytearray(), f"{PIECES - 1}:".encode() + b"x" * PIECE
        while not received.endswith(last):
            more = client.recv(1 << 20)
            assert more
            received += more
        assert [int(number) for number in re.findall(rb"(\d+):", received)] == list(range(PIECES))
        assert 0 < server.sent() < PIECES


class Transport(TCPConnection):
    """A socket that takes so many bytes at once, and what Twisted was left with."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken, self.left = b"", b""
        self._tempDataLen = 0

    def writeSomeData(self, data: bytes) -> int:
        written = min(len(data), self.room)
        self.taken += bytes(data[:written])
        self.room -= written
        return written

    def write(self, data: bytes) -> None:
        self.left += data
        self._tempDataLen = len(self.left)

    def registerProducer(self, *_: Any) -> None: ...

    def unregisterProducer(self) -> None: ...


def connection(transport: Transport, compress: object = None) -> Any:
    return SimpleNamespace(transport=transport, state=3, STATE_OPEN=3, _perMessageCompress=compress)


def sender(connection: Any) -> tuple[BackpressureSend, list[Any]]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    return BackpressureSend(send, connection), sent


async def test_a_message_is_written_without_waiting_for_the_reactor():
    transport = Transport(room=100)
    send, sent = sender(connection(transport))
    await send({"type": "websocket.send", "text": "é"})
    await send({"type": "websocket.send", "bytes": b"b"})
    assert send.write_frame(encode_frame(b"c"))

    assert transport.taken == b"\x81\x02\xc3\xa9\x82\x01b\x81\x01c"
    assert (transport.left, sent) == (b"", [])


async def test_twisted_gets_only_what_the_socket_did_not_take():
    transport = Transport(room=4)
    send, _ = sender(connection(transport))
    await send({"type": "websocket.send", "text": "abc"})
    assert not send.write_frame(encode_frame(b"later"))
    await send({"type": "websocket.send", "text": "d"})

    assert transport.taken + transport.left == b"\x81\x03abc\x81\x01d"
    assert len(transport.taken) == 4


async def test_a_compressed_connection_is_left_to_autobahn():
    send, sent = sender(connection(Transport(room=100), compress=object()))
    await send({"type": "websocket.send", "text": "abc"})
    assert not send.write_frame(encode_frame(b"abc"))
    assert sent == [{"type": "websocket.send", "text": "abc"}]


@pytest.mark.parametrize("size", [0, 125, 126, 0xFFFF, 0x10000])
def test_frames_are_encoded_as_autobahn_encodes_them(size):
    payload = b"x" * size
    expected = PreparedMessage(payload, False, False, True).payloadHybi
    assert encode_frame(payload) == expected
