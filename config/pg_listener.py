"""The one connection of an event loop that LISTENs, made anew whenever it is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any

import psycopg
import structlog
from django.db import connections

from config.pg_payload import CHANNEL

log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
#: A joiner waits this long for the connection; afterwards it is told when there is one.
PATIENCE_SECONDS = 5.0
#: After this much silence the connection is asked whether it lives.
PROBE_SECONDS = 20.0


def connection_parameters() -> dict[str, Any]:
    """Where Django's database is, in the words of psycopg."""
    parameters = connections["default"].get_connection_params()
    for only_for_django in ("cursor_factory", "context"):
        parameters.pop(only_for_django, None)
    return {"connect_timeout": 5, "application_name": "switchyard live"} | parameters


class Listener:
    """Hands every payload to `take`. After a gap in listening, `missed` is called once."""

    def __init__(self, *, take: Callable[[str], None], missed: Callable[[], None]) -> None:
        self._take = take
        self._missed = missed
        self._listening = asyncio.Event()
        self._gap = False
        self._task: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Start listening if nobody has, and wait for it a while."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen_for_ever(), name="live listener")
        if not self._listening.is_set():
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._listening.wait()
            except TimeoutError:
                self._gap = True

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _listen_for_ever(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                if self._listening.is_set():
                    pause = FIRST_PAUSE
                # The first complaint says it; the others would only say it again.
                report = log.warning if pause == FIRST_PAUSE else log.debug
                report("live_listener_lost", error=str(error).strip(), retry_in=pause)
            finally:
                self._listening.clear()
                self._gap = True
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            **connection_parameters(), autocommit=True
        ) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._listening.set()
            if self._gap:
                self._gap = False
                self._missed()
            while True:
                async with aclosing(connection.notifies(timeout=PROBE_SECONDS)) as notifies:
                    async for notify in notifies:
                        self._take(notify.payload)
                # Silence looks the same on a quiet line and on a dead one.
                await connection.execute("SELECT 1")
