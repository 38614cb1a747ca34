"""Speaks HTTP over a plain socket, to send what a proper client would not."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import connection

from tests.core.test_backpressure import Server, read_all, running

#: Connections of the small server.
POOL = 4


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def parse(received: bytes) -> RawAnswer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return RawAnswer(int(first.split()[1]), headers, body)


def begin(
    server: Server, path: str, *, key: str = "", method: str = "GET", body: bytes = b"", **more: str
) -> socket.socket:
    """Send a request, and return the socket to read its answer from."""
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    headers |= {"x-api-key": key} if key else {}
    headers |= {"Content-Length": str(len(body))} if body else {}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    client = server.request(path, f"Connection: close\r\n{lines}", method=method)
    client.sendall(body)
    return client


def finish(client: socket.socket) -> RawAnswer:
    with client:
        return parse(read_all(client))


def ask(server: Server, path: str, **options: Any) -> RawAnswer:
    return finish(begin(server, path, **options))


@contextmanager
def small_server(**environment: str) -> Iterator[Server]:
    """Run the real application with a small pool on the database of this test."""
    name = str(connection.settings_dict["NAME"])
    with running(
        "tests.core.small_pool",
        # Daphne cancels the request of a client that left, before the view has ended.
        options=["--application-close-timeout", "1"],
        TEST_DATABASE=name,
        POOL=str(POOL),
        **environment,
    ) as server:
        yield server


@contextmanager
def locked(table: str) -> Iterator[None]:
    """Make every statement on a table wait."""
    parameters = connection.get_connection_params()
    kept = {
        name: parameters[name] for name in ("dbname", "user", "host", "port") if name in parameters
    }
    with psycopg.connect(**kept) as holder:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        holder.rollback()


def waiting_for(table: str) -> int:
    """Return how many connections wait for the lock of a table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted", [table]
        )
        return int(cursor.fetchone()[0])
