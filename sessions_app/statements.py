"""Runs the lane's SQL functions, and turns the database's complaints into faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from config.faults import Fault, NotFound, SessionBusy, SessionEnded, StaleEpoch

T = TypeVar("T")

HOLD_LANE = "SELECT status, last_seq FROM lane_lock(%s, %s)"
COMPLAINTS: dict[str, type[Fault]] = {
    "SY404": NotFound,
    "SY409": SessionBusy,
    "SY410": SessionEnded,
    "SY412": StaleEpoch,
}
CONNECTION_WORDS = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert")
#: How long a write of a run waits for a database that went away, and how it paces itself.
PATIENCE_SECONDS = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def rows(query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of one statement, JSON as text. Outside a transaction it is a commit of its own."""
    with faults():
        connection.ensure_connection()
        # The server binds the parameters, so that the statement is planned once per connection.
        with psycopg.Cursor(connection.connection) as cursor:
            cursor.execute(query.encode(), params)
            return cursor.fetchall()


def row(query: str, params: Sequence[Any]) -> tuple[Any, ...]:
    """The one row of a statement that always has one."""
    return rows(query, params)[0]


class HeldLane(NamedTuple):
    """A session as it stands while nobody else can write to it."""

    status: str
    last_seq: int


def hold_lane(session_id: UUID, epoch: int | None = None) -> HeldLane:
    """Lock the session until the commit. With an epoch, only for the holder of its lane."""
    return HeldLane(*row(HOLD_LANE, [session_id, epoch]))


@contextmanager
def faults(complaints: Mapping[str, type[Fault]] = COMPLAINTS) -> Iterator[None]:
    """Raise the fault that a function of ours means by its error code."""
    try:
        with connection.wrap_database_errors:
            yield
    except Exception as error:
        code = getattr(error.__cause__, "sqlstate", None) or ""
        if fault := complaints.get(code):
            raise fault from error
        raise


def connect() -> psycopg.Connection[Any]:
    """A connection of its own, outside Django's pool: to listen, or to work beside a fork."""
    given = connection.get_connection_params()
    words = {word: given[word] for word in CONNECTION_WORDS if word in given}
    return psycopg.connect(autocommit=True, **words)


def patiently(write: Callable[[bool], T]) -> T:
    """Repeat a write while the database is away. The writer is told whether it is a repetition.

    A lost connection does not say whether the commit took place: a repeated write must find out.
    """
    end, pause, again = time.monotonic() + PATIENCE_SECONDS, FIRST_PAUSE, False
    while True:
        try:
            return write(again)
        except (OperationalError, InterfaceError):
            if connection.in_atomic_block or time.monotonic() > end:
                raise
            connection.close()
            time.sleep(pause)
            pause, again = min(pause * 2, LONGEST_PAUSE), True


def commit_once(write: Callable[[], object]) -> None:
    """Commit what is written, through a restart of the database if need be.

    The ids were made before the first attempt: a repetition that collides was written already.
    """

    def attempt(again: bool) -> None:
        try:
            with transaction.atomic():
                write()
        except IntegrityError:
            if not again:
                raise

    patiently(attempt)
