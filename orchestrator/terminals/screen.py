"""One shell on a pseudo-terminal, and everybody who watches it.

The shell goes on when nobody watches; who comes is shown the last 256 KiB first. A viewer who does
not read holds the others up for a few seconds at most, then is cut off.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

from config.faults import TooManyViewers
from orchestrator.terminals.wire import Words, frame
from tools_app.sandbox import Terminal

REPLAY_BYTES = 256 * 1024
#: Waits so long for a viewer whose buffer is full, once.
SLOW_SECONDS = 5.0
READ_SECONDS = 1.0
#: A shell that writes faster is held back; nobody can read faster, and browsers would choke.
BYTES_PER_SECOND = 8 * 1024 * 1024
MOST_VIEWERS = 32

Viewer = asyncio.StreamWriter


class Screen:
    """Everything but the reading thread belongs to the host's event loop."""

    def __init__(self, id: UUID, terminal: Terminal, *, columns: int, rows: int) -> None:
        self.id = id
        self.columns, self.rows = columns, rows
        self.reason = "The shell ended."
        self.viewers: set[Viewer] = set()
        self.quiet_since = time.monotonic()
        self._terminal = terminal
        self._past = bytearray()
        # A program that does not read blocks whoever types: a thread of its own, so nobody else.
        self._hand = ThreadPoolExecutor(max_workers=1, thread_name_prefix="typing")
        self._loop = asyncio.get_running_loop()

    def start(self, on_end: Callable[[Screen], None]) -> None:
        threading.Thread(target=self._read, args=(on_end,), daemon=True, name="screen").start()

    def _read(self, on_end: Callable[[Screen], None]) -> None:
        with suppress(RuntimeError):  # the loop is gone, and so is everything
            while (data := self._terminal.read(READ_SECONDS)) is not None:
                if data:
                    asyncio.run_coroutine_threadsafe(self._show(data), self._loop).result()
                    time.sleep(len(data) / BYTES_PER_SECOND)
            self._terminal.close()
            self._loop.call_soon_threadsafe(on_end, self)

    async def join(self, viewer: Viewer, *, may_write: bool) -> None:
        """Show a viewer what was, then what comes. No byte is missing between the two."""
        if len(self.viewers) >= MOST_VIEWERS:
            raise TooManyViewers
        past = bytes(self._past)
        viewer.write(frame({"type": "ready", **self.size, "replay": len(past), "write": may_write}))
        if past:
            viewer.write(frame(past))
        self.viewers.add(viewer)
        await viewer.drain()

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        self.quiet_since = time.monotonic()

    @property
    def size(self) -> Words:
        return {"cols": self.columns, "rows": self.rows}

    async def write(self, data: bytes) -> None:
        """Type, after what others have typed before."""
        self.quiet_since = time.monotonic()
        await self._loop.run_in_executor(self._hand, self._terminal.write, data)

    async def resize(self, columns: int, rows: int) -> None:
        if (columns, rows) == (self.columns, self.rows):
            return
        self.columns, self.rows = columns, rows
        await self._loop.run_in_executor(self._hand, self._terminal.resize, columns, rows)
        await self._tell(frame({"type": "resize", **self.size}))

    async def end(self, reason: str) -> None:
        """End the shell and all it started. Its reader notices, and tells the host."""
        self.reason = reason
        await asyncio.to_thread(self._terminal.close)

    async def bid_farewell(self) -> None:
        await self._tell(frame({"type": "closed", "reason": self.reason}))
        for viewer in list(self.viewers):
            viewer.close()
        self._hand.shutdown(wait=False, cancel_futures=True)

    async def _show(self, data: bytes) -> None:
        self.quiet_since = time.monotonic()
        self._past += data
        if (over := len(self._past) - REPLAY_BYTES) > 0:
            while over < len(self._past) and self._past[over] & 0xC0 == 0x80:
                over += 1  # not into the middle of a character
            del self._past[:over]
        await self._tell(frame(data))

    async def _tell(self, said: bytes) -> None:
        viewers = list(self.viewers)
        for viewer in viewers:
            viewer.write(said)
        await asyncio.gather(*(self._wait_for(viewer) for viewer in viewers))

    async def _wait_for(self, viewer: Viewer) -> None:
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await viewer.drain()
        except (TimeoutError, ConnectionError):
            self.leave(viewer)
            viewer.transport.abort()
