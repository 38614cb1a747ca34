"""Tests of the real web server with clients that do not read and with closed sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.core.flood import PIECE, PIECES

ROOT = Path(__file__).parents[2]
#: The most that the kernel and the server may buffer for a client that does not read.
MOST_BUFFERED = 8 * 1024 * 1024
UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class Server:
    """Runs Daphne with the flooding application on a Unix socket."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/web"

    def request(self, path: str, headers: str = "", method: str = "GET") -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(self.path)
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
def running(**environment: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        command = [sys.executable, "-m", "daphne", "-v", "0", "-u", server.path]
        with subprocess.Popen(
            [*command, "tests.core.flood:application"],
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
