"""Runs the engine's SQL functions: on Django's connection, or on a worker's own for the hot ones.

A worker's threads take a connection for one statement only. Django's pool asks each connection for
a sign of life before it lends it, which costs as much as a step; here a dead one is found by use,
and the writer repeats, as it must be able to anyway.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

from config.faults import Fault, InboxFull, NotFound, StaleEpoch, WorkflowEnded
from sessions_app.statements import connect, faults

COMPLAINTS: dict[str, type[Fault]] = {
    "SY404": NotFound,
    "SY410": WorkflowEnded,
    "SY412": StaleEpoch,
    "SY429": InboxFull,
}


class HotConnections:
    """A few connections, each used by one thread at a time, for one statement."""

    def __init__(self, most: int) -> None:
        self._room = threading.BoundedSemaphore(most)
        self._free: deque[psycopg.Connection[Any]] = deque()

    @contextmanager
    def borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        with self._room:
            try:
                taken = self._free.pop()
            except IndexError:
                taken = connect()
                taken.prepare_threshold = 0
            try:
                yield taken
            finally:
                if not taken.closed and not taken.broken:
                    self._free.append(taken)

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


#: Of this process, when it is a worker.
_hot: HotConnections | None = None


def use_hot_connections() -> HotConnections:
    global _hot
    _hot = _hot or HotConnections(settings.DATABASE_POOL)
    return _hot


def rows(query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement. Outside a transaction it is a commit of its own."""
    with faults(COMPLAINTS):
        if _hot is None or connection.in_atomic_block:
            connection.ensure_connection()
            return _run(connection.connection, query, params)
        with _hot.borrowed() as taken:
            return _run(taken, query, params)


def row(query: str, params: Sequence[Any]) -> tuple[Any, ...]:
    """The one row of a statement that always has one."""
    return rows(query, params)[0]


def _run(on: psycopg.Connection[Any], query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    # The server binds the parameters, so that the statement is planned once per connection.
    with psycopg.Cursor(on) as cursor:
        cursor.execute(query.encode(), params)
        return cursor.fetchall()
