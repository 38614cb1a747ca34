"""How web processes reach the host of terminals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from config import faults
from config.faults import Fault, TerminalFailed, TerminalsAway
from orchestrator.terminals.wire import Words, address, body_of, frame, next_frame, size_of

#: Connecting is quick; opening a container may not be.
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 45.0


def ask(**asked: str) -> None:
    """Ask the host to do something and wait until it has."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(CONNECT_SECONDS)
            line.connect(address())
            line.settimeout(ANSWER_SECONDS)
            line.sendall(frame(dict(asked)))
            with line.makefile("rb") as answer:
                head = answer.read(5)
                if len(head) < 5:
                    raise TerminalsAway
                said = body_of(head, answer.read(size_of(head)))
    except OSError as error:
        raise TerminalsAway from error
    if isinstance(said, dict) and said["type"] == "fault":
        raise fault_of(said)


def fault_of(said: Words) -> Fault:
    """The fault that the host had, here."""
    for known in (
        faults.TerminalOver,
        faults.TooManyViewers,
        faults.SandboxUnavailable,
        faults.NoSandbox,
    ):
        if known.code == said["code"]:
            return known(said["detail"])
    return TerminalFailed(said["detail"])


class Line:
    """One viewer's connection to the host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def next(self) -> bytes | Words:
        said = await next_frame(self._reader)
        if said is None:
            raise TerminalsAway
        if isinstance(said, dict) and said["type"] == "fault":
            raise fault_of(said)
        return said

    async def send(self, body: bytes | Words) -> None:
        try:
            self._writer.write(frame(body))
            await self._writer.drain()
        except ConnectionError as error:
            raise TerminalsAway from error

    def hang_up(self) -> None:
        with suppress(ConnectionError):
            self._writer.close()


@asynccontextmanager
async def watching(terminal_id: UUID, *, may_write: bool) -> AsyncIterator[Line]:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            line = Line(*await asyncio.open_unix_connection(address()))
    except (OSError, TimeoutError) as error:
        raise TerminalsAway from error
    try:
        await line.send({"do": "watch", "id": str(terminal_id), "write": may_write})
        yield line
    finally:
        line.hang_up()
