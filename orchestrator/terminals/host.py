"""The process that holds all terminals of this machine; web processes come and go beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error

from config.faults import Fault, NoSandbox, TerminalFailed, TerminalOver
from orchestrator.models import Terminal
from orchestrator.terminals import records
from orchestrator.terminals.place import sandbox_of, task_place_of
from orchestrator.terminals.screen import Screen
from orchestrator.terminals.wire import MOST_BYTES, Words, address, frame, next_frame
from tenants.off_loop import let_go
from tenants.pulse import beat
from tools_app.sandbox import Terminal as Shell

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
STOPPED = "Switchyard was stopped."
MOST_TERMINALS = 100

T = TypeVar("T")


class Host:
    def __init__(self) -> None:
        self.screens: dict[UUID, Screen] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._opening = 0

    async def serve(self, stop: asyncio.Event) -> None:
        """Hold terminals until told to stop; then end them all and say so."""
        await in_thread(records.close_left_behind)
        path = address()
        with suppress(FileNotFoundError):
            os.unlink(path)
        before = os.umask(0o177)  # nobody else may connect, not even for a moment
        try:
            server = await asyncio.start_unix_server(self._meet, path)
        finally:
            os.umask(before)
        looking = asyncio.create_task(self._look_often())
        await stop.wait()
        server.close()
        looking.cancel()
        await self._end_all()

    async def _end_all(self) -> None:
        await asyncio.gather(*(screen.end(STOPPED) for screen in self.screens.values()))
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while self.screens or self._ending:
                    await asyncio.sleep(0.02)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=MOST_BYTES // 2)
        try:
            asked = await next_frame(reader)
            if isinstance(asked, dict):
                await self._obey(asked, reader, writer)
        except Fault as fault:
            writer.write(frame({"type": "fault", "code": fault.code, "detail": fault.detail}))
        except Exception:
            log.exception("terminal_door_failed")
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _obey(
        self, asked: Words, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match asked["do"]:
            case "open":
                await self._open(UUID(asked["id"]))
                writer.write(frame({"type": "done"}))
            case "look":
                await self._look()
                writer.write(frame({"type": "done"}))
            case "watch":
                await self._watch(UUID(asked["id"]), bool(asked["write"]), reader, writer)
            case other:
                raise TerminalFailed(f"The host of terminals does not know how to {other}.")

    async def _open(self, terminal_id: UUID) -> None:
        if len(self.screens) + self._opening >= MOST_TERMINALS:
            raise TerminalFailed("This machine holds too many terminals already.")
        self._opening += 1
        try:
            row, terminal = await in_thread(lambda: open_shell(terminal_id))
        finally:
            self._opening -= 1
        screen = Screen(row.pk, terminal, columns=row.columns, rows=row.rows)
        if not await in_thread(lambda: records.record_opened(row.pk)):
            await screen.end(TerminalOver().detail)
            raise TerminalOver
        self.screens[row.pk] = screen
        screen.start(self._note_end)
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
        screen = self.screens.get(terminal_id)
        if screen is None:
            raise TerminalOver
        try:
            await screen.join(writer, may_write=may_write)
            while (said := await next_frame(reader)) is not None:
                if not may_write:
                    continue
                if isinstance(said, bytes):
                    await screen.write(said)
                else:
                    await screen.resize(said["cols"], said["rows"])
        finally:
            screen.leave(writer)

    def _note_end(self, screen: Screen) -> None:
        task = asyncio.create_task(self._forget(screen))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _forget(self, screen: Screen) -> None:
        self.screens.pop(screen.id, None)
        await in_thread(lambda: records.record_closed(screen.id, screen.reason))
        await screen.bid_farewell()
        log.info("terminal_closed", terminal_id=str(screen.id), reason=screen.reason)

    async def _look_often(self) -> None:
        while True:
            try:
                await in_thread(lambda: beat(records.PULSE))
                await self._look()
            except Error:
                log.warning("terminals_look_failed", exc_info=True)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """End what somebody closed, whose session was archived, and what nobody uses any more."""
        if not self.screens:
            return
        held = dict(self.screens)
        unwanted = await in_thread(lambda: records.unwanted(list(held)))
        late = time.monotonic() - settings.TERMINAL_IDLE_SECONDS
        ends = []
        for id, screen in held.items():
            if id in unwanted:
                ends.append(screen.end(unwanted[id]))
            elif not screen.viewers and screen.quiet_since < late:
                ends.append(screen.end("Nobody watched it and nothing happened in it for long."))
        await asyncio.gather(*ends)


def open_shell(terminal_id: UUID) -> tuple[Terminal, Shell]:
    """The row and a shell in the sandbox of its session or task."""
    rows = Terminal.objects.select_related("session__environment")
    row = rows.filter(pk=terminal_id, status=Terminal.Status.OPENING).first()
    if row is None:
        raise TerminalOver
    sandbox = sandbox_of(row)
    let_go()
    shell = sandbox.open_terminal(columns=row.columns, rows=row.rows)
    if row.session_id is None:
        try:
            task_place_of(row.workflow_id)
        except NoSandbox:  # it was closed meanwhile, and what was in it ended before this
            shell.close()
            raise
    return row, shell


async def in_thread(work: Callable[[], T]) -> T:
    """Run what blocks beside the loop; its connection to the database goes back at once."""

    def run() -> T:
        try:
            return work()
        finally:
            let_go()

    return await asyncio.to_thread(run)


def host_until_stopped() -> None:
    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Engines that hang while terminals open must not keep it from giving signs of life.
        loop.set_default_executor(ThreadPoolExecutor(max_workers=64))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await Host().serve(stop)

    asyncio.run(run())
