"""Checks whether the whole stack works: database, workers, supervisor, terminals and stream."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Final, Literal, TypedDict

import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection

from tenants.pulse import pulse_age

log = structlog.get_logger(__name__)

OK: Final = "ok"
DATABASE_SECONDS = 2.5
STREAM_SECONDS = 2.0
#: How long a report is reused, so that health checks cannot load the database.
FRESH_SECONDS = 1.0


class RowChecks(TypedDict):
    database: str
    workers: str
    supervisor: str
    terminals: str


class Checks(RowChecks):
    stream: str


@dataclass(frozen=True, kw_only=True)
class Report:
    checks: Checks
    at: float

    @property
    def status(self) -> Literal["ok", "degraded"]:
        return OK if all(result == OK for result in self.checks.values()) else "degraded"


class HealthChecker:
    """Checks the stack, at most once at a time, and reuses the last report for a moment."""

    def __init__(self) -> None:
        # Own threads: a database that hangs must not use up those of others.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="health")
        self._report: Report | None = None
        self._running: asyncio.Task[Report] | None = None

    async def ask(self) -> Report:
        if self._report and time.monotonic() - self._report.at < FRESH_SECONDS:
            return self._report
        running = self._running
        if (
            running is None
            or running.done()
            or running.get_loop() is not asyncio.get_running_loop()
        ):
            running = self._running = asyncio.create_task(self.check())
        # A caller may give up; the others still wait for the answer.
        return await asyncio.shield(running)

    async def check(self) -> Report:
        rows, stream = await asyncio.gather(self._check_database(), check_stream())
        self._report = Report(checks=Checks(**rows, stream=stream), at=time.monotonic())
        return self._report

    async def _check_database(self) -> RowChecks:
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._threads, read_database)
        try:
            return await asyncio.wait_for(reading, DATABASE_SECONDS)
        except Exception as error:  # noqa: BLE001 (whatever is wrong, the answer is the same)
            log.warning("health_check_failed", check="database", error=repr(error))
            reason = "no answer in time" if isinstance(error, TimeoutError) else "out of reach"
            unknown = "unknown"
            return RowChecks(
                database=reason, workers=unknown, supervisor=unknown, terminals=unknown
            )

    def forget(self) -> None:
        """Drop the last report."""
        self._report = None


checker = HealthChecker()


def read_database() -> RowChecks:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
        return RowChecks(
            database=OK,
            workers=sign_of_life("worker"),
            supervisor=sign_of_life("supervisor"),
            # Terminals are optional; an installation that has run them must keep them running.
            terminals=OK if pulse_age("terminals") is None else sign_of_life("terminals"),
        )
    finally:
        connection.close()


def sign_of_life(kind: str) -> str:
    age = pulse_age(kind)
    if age is None:
        return "no sign of life yet"
    return OK if age < settings.PULSE_SECONDS else f"no sign of life for {age:.0f} s"


async def check_stream() -> str:
    """Send a message through the channel layer and wait for it."""
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            return await echo()
    except Exception as error:  # noqa: BLE001 (whatever is wrong, the answer is the same)
        log.warning("health_check_failed", check="stream", error=repr(error))
        return "no answer in time" if isinstance(error, TimeoutError) else "out of reach"


async def echo() -> str:
    layer = get_channel_layer()
    if layer is None:
        return "not configured"
    group, word = f"health.{token_hex(8)}", token_hex(8)
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    try:
        await layer.group_send(group, {"type": "health.ring", "word": word})
        while (await layer.receive(channel)).get("word") != word:
            pass  # the layer's own messages
    finally:
        await layer.group_discard(group, channel)
        # A layer forgets a channel when its last receiver is cancelled.
        with suppress(TimeoutError):
            await asyncio.wait_for(layer.receive(channel), 0.001)
    return OK
