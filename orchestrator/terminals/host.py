"""The process that holds all terminals of this machine; web processes may come and go."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error

from core.db import read as in_thread
from core.db import release_connection
from core.exceptions import Fault
from orchestrator.exceptions import NoSandbox, TerminalFailed, TerminalOver, TooManyViewers
from orchestrator.models import Terminal
from orchestrator.terminals import terminals
from orchestrator.terminals.client import MAX_BYTES, Message, address, frame, next_frame
from tenants.pulse import beat
from tools_app.sandbox.base import Terminal as Shell

log = structlog.get_logger(__name__)
CHECK_SECONDS = 2.0
STOPPED = "Switchyard was stopped."
MAX_TERMINALS = 100
REPLAY_BYTES = 256 * 1024
#: How long to wait for a viewer whose buffer is full.
SLOW_SECONDS = 5.0
READ_SECONDS = 1.0
#: A shell that writes faster is held back, because browsers would choke on it.
BYTES_PER_SECOND = 8 * 1024 * 1024
MAX_VIEWERS = 32
Viewer = asyncio.StreamWriter


class TerminalSession:
    """One shell on a pseudo-terminal, and everyone who watches it.

    The shell continues without viewers, and a new viewer is sent the last 256 KiB first. A viewer
    that does not read delays the others for a few seconds at most, then is disconnected. Everything
    but the reading thread belongs to the host's event loop.
    """

    def __init__(self, id: UUID, terminal: Shell, *, columns: int, rows: int) -> None:
        self.id = id
        self.columns, self.rows = columns, rows
        self.reason = "The shell ended."
        self.viewers: set[Viewer] = set()
        self.quiet_since = time.monotonic()
        self._terminal = terminal
        self._replay = bytearray()
        self._is_over = False
        # A program that does not read its input blocks the writer: one thread per terminal.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="typing")
        self._loop = asyncio.get_running_loop()

    def start(self, on_end: Callable[[TerminalSession], None]) -> None:
        threading.Thread(target=self._read, args=(on_end,), daemon=True, name="session").start()

    def _read(self, on_end: Callable[[TerminalSession], None]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            while (data := self._terminal.read(READ_SECONDS)) is not None:
                if data:
                    asyncio.run_coroutine_threadsafe(self._output(data), self._loop).result()
                    time.sleep(len(data) / BYTES_PER_SECOND)
            self._terminal.close()
            self._loop.call_soon_threadsafe(on_end, self)

    async def join(self, viewer: Viewer, *, may_write: bool) -> None:
        """Send a viewer the replay, then everything that follows, without a gap."""
        if len(self.viewers) >= MAX_VIEWERS:
            raise TooManyViewers
        replay = bytes(self._replay)
        viewer.write(
            frame({"type": "ready", **self.size, "replay": len(replay), "write": may_write})
        )
        if replay:
            viewer.write(frame(replay))
        self.viewers.add(viewer)
        await viewer.drain()

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        self.quiet_since = time.monotonic()

    @property
    def size(self) -> Message:
        return {"cols": self.columns, "rows": self.rows}

    async def write(self, data: bytes) -> None:
        """Type, after what others have typed before."""
        self.quiet_since = time.monotonic()
        await self._on_thread(self._terminal.write, data)

    async def resize(self, columns: int, rows: int) -> None:
        if (columns, rows) == (self.columns, self.rows):
            return
        self.columns, self.rows = columns, rows
        await self._on_thread(self._terminal.resize, columns, rows)
        await self._broadcast(frame({"type": "resize", **self.size}))

    async def _on_thread(self, act: Callable[..., None], *arguments: Any) -> None:
        """Call the shell on its thread, or raise TerminalOver if it ended meanwhile."""
        try:
            await self._loop.run_in_executor(self._writer, act, *arguments)
        except (RuntimeError, asyncio.CancelledError):
            if not self._is_over:
                raise
            raise TerminalOver(self.reason) from None

    async def end(self, reason: str) -> None:
        """End the shell and all it started. Its reader notices, and tells the host."""
        self.reason = reason
        await asyncio.to_thread(self._terminal.close)

    async def close_viewers(self) -> None:
        await self._broadcast(frame({"type": "closed", "reason": self.reason}))
        for viewer in list(self.viewers):
            viewer.close()
        self._is_over = True
        self._writer.shutdown(wait=False, cancel_futures=True)

    async def _output(self, data: bytes) -> None:
        self.quiet_since = time.monotonic()
        self._replay += data
        if (over := len(self._replay) - REPLAY_BYTES) > 0:
            while over < len(self._replay) and self._replay[over] & 0xC0 == 0x80:
                over += 1  # not within a character
            del self._replay[:over]
        await self._broadcast(frame(data))

    async def _broadcast(self, received: bytes) -> None:
        viewers = list(self.viewers)
        for viewer in viewers:
            viewer.write(received)
        await asyncio.gather(*(self._wait_for(viewer) for viewer in viewers))

    async def _wait_for(self, viewer: Viewer) -> None:
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await viewer.drain()
        except (TimeoutError, ConnectionError):
            self.leave(viewer)
            viewer.transport.abort()


class TerminalHost:
    """All terminals of this machine."""

    def __init__(self) -> None:
        self.sessions: dict[UUID, TerminalSession] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._opening = 0

    async def serve(self, stop: asyncio.Event) -> None:
        """Hold terminals until `stop` is set; then end them all."""
        await in_thread(terminals.close_left_behind)
        path = address()
        with suppress(FileNotFoundError):
            os.unlink(path)
        before = os.umask(0o177)  # no other user may connect, not even for a moment
        try:
            server = await asyncio.start_unix_server(self._accept, path)
        finally:
            os.umask(before)
        checking = asyncio.create_task(self._check_often())
        await stop.wait()
        server.close()
        checking.cancel()
        await self._end_all()

    async def _end_all(self) -> None:
        await asyncio.gather(*(session.end(STOPPED) for session in self.sessions.values()))
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while self.sessions or self._ending:
                    await asyncio.sleep(0.02)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=MAX_BYTES // 2)
        try:
            request = await next_frame(reader)
            if isinstance(request, dict):
                await self._handle(request, reader, writer)
        except Fault as fault:
            writer.write(frame({"type": "fault", "code": fault.code, "detail": fault.detail}))
        except (ConnectionError, asyncio.CancelledError):
            pass  # the viewer has left, or the host stops
        except Exception:
            log.exception("terminal_request_failed")
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _handle(
        self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match request["do"]:
            case "open":
                await self._open(UUID(request["id"]))
                writer.write(frame({"type": "done"}))
            case "look":
                await self._check()
                writer.write(frame({"type": "done"}))
            case "watch":
                await self._watch(UUID(request["id"]), bool(request["write"]), reader, writer)
            case other:
                raise TerminalFailed(f"Unknown request: {other}.")

    async def _open(self, terminal_id: UUID) -> None:
        if len(self.sessions) + self._opening >= MAX_TERMINALS:
            raise TerminalFailed("Too many terminals are open on this machine.")
        self._opening += 1
        try:
            row, terminal = await in_thread(open_shell, terminal_id)
        finally:
            self._opening -= 1
        session = TerminalSession(row.pk, terminal, columns=row.columns, rows=row.rows)
        if not await in_thread(terminals.record_opened, row.pk):
            await session.end(TerminalOver().detail)
            raise TerminalOver
        self.sessions[row.pk] = session
        session.start(self._on_end)
        log.info(
            "terminal_opened", terminal_id=str(row.pk), place=str(row.session_id or row.workflow_id)
        )

    async def _watch(
        self,
        terminal_id: UUID,
        may_write: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        session = self.sessions.get(terminal_id)
        if session is None:
            raise TerminalOver
        try:
            await session.join(writer, may_write=may_write)
            while (received := await next_frame(reader)) is not None:
                if not may_write:
                    continue
                if isinstance(received, bytes):
                    await session.write(received)
                else:
                    await session.resize(received["cols"], received["rows"])
        finally:
            session.leave(writer)

    def _on_end(self, session: TerminalSession) -> None:
        task = asyncio.create_task(self._forget(session))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _forget(self, session: TerminalSession) -> None:
        self.sessions.pop(session.id, None)
        await in_thread(terminals.record_closed, session.id, session.reason)
        await session.close_viewers()
        log.info("terminal_closed", terminal_id=str(session.id), reason=session.reason)

    async def _check_often(self) -> None:
        while True:
            try:
                await in_thread(beat, terminals.PULSE)
                await self._check()
            except Error:
                log.warning("terminals_check_failed", exc_info=True)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        """End the terminals that were closed, whose session was archived, or that are idle."""
        if not self.sessions:
            return
        held = dict(self.sessions)
        to_close = await in_thread(terminals.to_close, list(held))
        late = time.monotonic() - settings.TERMINAL_IDLE_SECONDS
        ends = []
        for id, session in held.items():
            if id in to_close:
                ends.append(session.end(to_close[id]))
            elif not session.viewers and session.quiet_since < late:
                ends.append(session.end("It was idle for too long."))
        await asyncio.gather(*ends)


def open_shell(terminal_id: UUID) -> tuple[Terminal, Shell]:
    """Return the row and a shell in the sandbox of its session or task."""
    rows = Terminal.objects.select_related("session__environment")
    row = rows.filter(pk=terminal_id, status=Terminal.Status.OPENING).first()
    if row is None:
        raise TerminalOver
    sandbox = terminals.sandbox_of(row)
    release_connection()
    shell = sandbox.open_terminal(columns=row.columns, rows=row.rows)
    if row.session_id is None:
        try:
            terminals.find_task_sandbox(row.workflow_id)
        except NoSandbox:  # it was closed meanwhile, after its processes were ended
            shell.close()
            raise
    return row, shell


def host_until_stopped() -> None:
    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        # A container engine that hangs while terminals open must not block the signs of life.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=64))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await TerminalHost().serve(stop)

    asyncio.run(run())
