"""Listens for PostgreSQL notifications, and encodes messages as notification payloads."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any
from uuid import UUID

import orjson
import psycopg
import structlog
from django.db import connections

from core.db import connect
from core.exceptions import MessageTooLong

CHANNEL = "switchyard_live"
LARGEST = 7_900  #: Bytes of a payload; PostgreSQL's limit is 7,999.
MOST_PARTS = 1_000
MOST_UNFINISHED = 64  #: Incomplete messages kept; the oldest is dropped first.
CONTINUATION = 0b1000_0000  # the two leading bits of a byte inside a UTF-8 character


def encode(address: str, message: Mapping[str, object]) -> list[str]:
    """Encode a message as one payload, or as several if it is too long for one."""
    body = orjson.dumps(message)
    room = LARGEST - len(address) - 1
    if len(body) <= room:
        return [f"{address} {body.decode()}"]
    pieces = split(body, room - len("#01234567/1000/1000 "))
    if len(pieces) > MOST_PARTS:
        raise MessageTooLong
    name = secrets.token_hex(4)
    return [
        f"{address} #{name}/{number}/{len(pieces)} {piece.decode()}"
        for number, piece in enumerate(pieces)
    ]


def split(body: bytes, size: int) -> list[bytes]:
    """Split into pieces of at most this many bytes, never inside a character."""
    pieces = []
    start = 0
    while start < len(body):
        end = min(start + size, len(body))
        while end < len(body) and body[end] & 0b1100_0000 == CONTINUATION:
            end -= 1
        pieces.append(body[start:end])
        start = end
    return pieces


def address_of(payload: str) -> str:
    return payload.partition(" ")[0]


class Decoder:
    """Decodes payloads and keeps the parts of a message until it is complete."""

    def __init__(self) -> None:
        self._unfinished: OrderedDict[str, dict[int, str]] = OrderedDict()

    def decode(self, payload: str) -> bytes | None:
        """Return the JSON of a message, or None while parts of it are missing."""
        body = payload.partition(" ")[2]
        if not body.startswith("#"):
            return body.encode()
        head, _, piece = body.partition(" ")
        name, number, count = head.split("/")
        pieces = self._unfinished.setdefault(name, {})
        pieces[int(number)] = piece
        if len(pieces) == int(count):
            del self._unfinished[name]
            return "".join(pieces[place] for place in sorted(pieces)).encode()
        if len(self._unfinished) > MOST_UNFINISHED:
            self._unfinished.popitem(last=False)
        return None


log = structlog.get_logger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
#: How long a new subscriber waits for the connection before it continues without it.
PATIENCE_SECONDS = 5.0
#: After this long without a notification the connection is probed.
PROBE_SECONDS = 20.0


def connection_parameters() -> dict[str, Any]:
    """Return the parameters with which psycopg connects to Django's database."""
    parameters = connections["default"].get_connection_params()
    for only_for_django in ("cursor_factory", "context"):
        parameters.pop(only_for_django, None)
    return {"connect_timeout": 5, "application_name": "switchyard live"} | parameters


class Listener:
    """Listens on one connection, which is reopened when lost.

    Every payload is passed to `take`. After a gap in listening, `missed` is called once.
    """

    def __init__(self, *, take: Callable[[str], None], missed: Callable[[], None]) -> None:
        self._take = take
        self._missed = missed
        self._listening = asyncio.Event()
        self._gap = False
        self._task: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Start listening if needed, and wait up to PATIENCE_SECONDS for the connection."""
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
                # Only the first failure is a warning; retries would repeat it.
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
                # A dead connection is as silent as an idle one, so probe it.
                await connection.execute("SELECT 1")


PAUSE_SECONDS = 0.5


def listen(channel: str) -> psycopg.Connection[Any]:
    """Return a new connection that listens on a channel."""
    listener = connect()
    listener.execute(f'LISTEN "{channel}"'.encode())
    return listener


def hear(channel: str, tell: Callable[[UUID], None], *, until: threading.Event) -> None:
    """Call `tell` with every id notified on a channel, until the event is set."""
    while not until.is_set():
        try:
            with listen(channel) as listener:
                while not until.is_set():
                    for note in listener.notifies(timeout=1, stop_after=1):
                        tell(UUID(note.payload))
        except (psycopg.Error, ValueError):
            until.wait(PAUSE_SECONDS)
