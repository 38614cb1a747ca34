"""How web processes talk to the host of terminals, over a Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from core.exceptions import Fault
from orchestrator import exceptions
from tools_app.exceptions import SandboxUnavailable

SOCKET = "terminals.sock"
#: Longer paths do not fit into the address of a Unix socket.
MAX_PATH = 100
MAX_BYTES = 1024 * 1024
JSON, BYTES = b"J", b"B"

Message = dict[str, Any]


def address() -> str:
    """Return the path on which this installation's host listens, short enough for a socket."""
    return _short(str(settings.DATA_DIR))


@cache
def _short(folder: str) -> str:
    path = str(Path(folder) / SOCKET)
    if len(os.fsencode(path)) <= MAX_PATH:
        return path
    # Kept open for the life of the process: the kernel finds the folder by it.
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{SOCKET}"


def frame(body: bytes | Message) -> bytes:
    """Return a message or raw bytes as one frame: length, kind and body."""
    kind, packed = (BYTES, body) if isinstance(body, bytes) else (JSON, orjson.dumps(body))
    return len(packed).to_bytes(4) + kind + packed


def size_of(head: bytes) -> int:
    """Return the length of the body. A longer one does not come from a host."""
    if (size := int.from_bytes(head[:4])) > MAX_BYTES:
        raise exceptions.TerminalsAway
    return size


def body_of(head: bytes, body: bytes) -> bytes | Message:
    if head[4:] == BYTES:
        return body
    message: Message = orjson.loads(body)
    return message


async def next_frame(reader: asyncio.StreamReader) -> bytes | Message | None:
    """Return the next frame, or None when the other side has closed the connection."""
    try:
        head = await reader.readexactly(5)
        return body_of(head, await reader.readexactly(size_of(head)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


#: Connecting is quick; opening a container may take a while.
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 45.0


def ask(**asked: str) -> None:
    """Send the host a request and wait until it is done."""
    try:
        with socket.socket(socket.AF_UNIX) as host:
            host.settimeout(CONNECT_SECONDS)
            host.connect(address())
            host.settimeout(ANSWER_SECONDS)
            host.sendall(frame(dict(asked)))
            with host.makefile("rb") as stream:
                head = stream.read(5)
                if len(head) < 5:
                    raise exceptions.TerminalsAway
                answer = body_of(head, stream.read(size_of(head)))
    except OSError as error:
        raise exceptions.TerminalsAway from error
    if isinstance(answer, dict) and answer["type"] == "fault":
        raise error_of(answer)


def error_of(answer: Message) -> Fault:
    """Return the exception for an error that the host reported."""
    known_errors = (SandboxUnavailable, exceptions.NoSandbox, exceptions.TerminalOver)
    for known in (*known_errors, exceptions.TooManyViewers):
        if known.code == answer["code"]:
            return known(answer["detail"])
    return exceptions.TerminalFailed(answer["detail"])


class HostConnection:
    """One viewer's connection to the host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def next(self) -> bytes | Message:
        answer = await next_frame(self._reader)
        if answer is None:
            raise exceptions.TerminalsAway
        if isinstance(answer, dict) and answer["type"] == "fault":
            raise error_of(answer)
        return answer

    async def send(self, body: bytes | Message) -> None:
        try:
            self._writer.write(frame(body))
            await self._writer.drain()
        except ConnectionError as error:
            raise exceptions.TerminalsAway from error

    def close(self) -> None:
        with suppress(ConnectionError):
            self._writer.close()


@asynccontextmanager
async def watch(terminal_id: UUID, *, may_write: bool) -> AsyncIterator[HostConnection]:
    """Connect a viewer to a terminal."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            host = HostConnection(*await asyncio.open_unix_connection(address()))
    except (OSError, TimeoutError) as error:
        raise exceptions.TerminalsAway from error
    try:
        await host.send({"do": "watch", "id": str(terminal_id), "write": may_write})
        yield host
    finally:
        host.close()
