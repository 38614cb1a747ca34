"""Speaks to an MCP server over its standard input and output, inside a sandbox.

The command runs by the sandbox's own `execute`, so that all its limits hold, and its two ends are
named pipes in the session's folder. Any kind of sandbox that shows that folder will do.
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import anyio
import mcp_types as types
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from config.faults import Fault, McpFailed
from tools_app.folder import MOUNTED_AT, SessionFolder, acting_gid, acting_uid
from tools_app.sandbox.base import ExecResult, Sandbox

LONGEST_LINE = 8_000_000
CHUNK = 65_536
SAID = 2_000
TICK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a server's command runs."""

    folder: SessionFolder
    sandbox: Sandbox


class Pipes:
    """One command with a pipe to it and one from it."""

    def __init__(self, command: str, place: Place | None, seconds: float) -> None:
        if place is None:
            raise McpFailed("A server over stdio runs only inside a sandbox.")
        self._command, self._place, self._seconds = command, place, seconds
        self._mark = f".mcp-{token_hex(8)}"
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._said = ""
        self._fault: Fault | None = None
        self._result: ExecResult | None = None

    @property
    def complaint(self) -> str:
        """What the command said when it ended by itself or could not start."""
        if self._fault:
            return self._fault.detail
        if self._result is None or self._result.ended_by == "stop":
            return ""
        ending = f"Its command ended ({self._result.ended_by}, exit {self._result.exit_code})."
        return f"{ending} It said: {self._said.strip()[-500:]}" if self._said.strip() else ending

    def open(self) -> AbstractAsyncContextManager[Any]:
        """The streams that the client library speaks over."""
        return self._open()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Any]:
        files = self._place.folder.make()
        home = os.open(files, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        ends: list[int] = []
        try:
            ends += [_pipe(home, f"{self._mark}.{name}") for name in ("in", "out")]
            threading.Thread(target=self._execute, name=self._mark, daemon=True).start()
            async with self._streams(*ends) as streams:
                yield streams
        finally:
            self._stop.set()
            for end in ends:
                os.close(end)
            for name in ("in", "out"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._mark}.{name}", dir_fd=home)
            os.close(home)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._ended.wait, 5)

    @asynccontextmanager
    async def _streams(self, to: int, back: int) -> AsyncIterator[Any]:
        into, inbox = create_context_streams[SessionMessage | Exception](0)
        outbox, out_of = create_context_streams[SessionMessage](0)
        async with into, inbox, outbox, out_of, anyio.create_task_group() as group:
            group.start_soon(self._read, back, into)
            group.start_soon(self._write, to, out_of)
            try:
                yield inbox, outbox
            finally:
                group.cancel_scope.cancel()

    def _execute(self) -> None:
        ends = f"<{MOUNTED_AT}/{self._mark}.in >{MOUNTED_AT}/{self._mark}.out"
        try:
            self._result = self._place.sandbox.execute(
                f"exec bash -c {shlex.quote(self._command)} {ends}",
                seconds=self._seconds,
                on_output=self._hear,
                stopped=self._stop,
            )
        except Fault as fault:
            self._fault = fault
        finally:
            self._ended.set()

    def _hear(self, text: str) -> None:
        self._said = (self._said + text)[-SAID:]

    async def _read(self, back: int, into: Any) -> None:
        """Lines of JSON from the command. What is none is skipped, as servers like to chat."""
        kept = b""
        while True:
            data = await self._data(back)
            *lines, kept = (kept + data).split(b"\n")
            if len(kept) > LONGEST_LINE:
                raise McpFailed(f"It sent a line of more than {LONGEST_LINE:,} bytes.")
            for line in lines:
                with suppress(ValidationError):
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await into.send(SessionMessage(message))

    async def _data(self, back: int) -> bytes:
        # Both ends of the pipe are held here, so its end is never seen: the command's is.
        while True:
            try:
                return os.read(back, CHUNK)
            except BlockingIOError:
                if self._ended.is_set():
                    raise McpFailed(self.complaint or "Its command ended.") from None
                await anyio.sleep(TICK_SECONDS)

    async def _write(self, to: int, out_of: Any) -> None:
        async for sent in out_of:
            told = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            left = memoryview(told.encode() + b"\n")
            while left:
                try:
                    left = left[os.write(to, left) :]
                except BlockingIOError:
                    await anyio.sleep(TICK_SECONDS)


def _pipe(home: int, name: str) -> int:
    """A named pipe that the sandbox's user can open; nobody can have put another thing there."""
    os.mkfifo(name, 0o600, dir_fd=home)
    if os.geteuid() == 0:
        os.chown(name, acting_uid(), acting_gid(), dir_fd=home, follow_symlinks=False)
    end = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=home)
    if not stat.S_ISFIFO(os.fstat(end).st_mode):
        os.close(end)
        raise McpFailed("The pipe to the command was tampered with.")
    return end
