"""Runs SQL functions and statements of sessions, and turns their error codes into exceptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)

from core.db import prepared_rows
from core.exceptions import Fault, NotFound, StaleEpoch
from sessions_app.exceptions import (
    QueueFull,
    SessionBusy,
    SessionEnded,
    WorkspaceQueueFull,
)

T = TypeVar("T")

LOCK_LANE = "SELECT status, last_seq FROM lane_lock(%s, %s)"
ERROR_CODES: dict[str, type[Fault]] = {
    "SY404": NotFound,
    "SY409": SessionBusy,
    "SY410": SessionEnded,
    "SY412": StaleEpoch,
    "SY429": QueueFull,
    "SY430": WorkspaceQueueFull,
}
#: How long a write of a run waits for an unreachable database, and the pauses between attempts.
RECONNECT_SECONDS = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def rows(query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of one statement, with JSON as text. Outside a transaction it is one commit."""
    try:
        return prepared_rows(query, params)
    except DatabaseError as error:
        _raise_fault(error, ERROR_CODES)
        raise


def row(query: str, params: Sequence[Any]) -> tuple[Any, ...]:
    """Return the row of a statement that always has one."""
    return rows(query, params)[0]


class LockedLane(NamedTuple):
    """The state of a session while its lane is locked."""

    status: str
    last_seq: int


def lock_lane(session_id: UUID, epoch: int | None = None) -> LockedLane:
    """Lock the session until the commit.

    With an epoch, raise StaleEpoch unless the caller still holds the lane.
    """
    return LockedLane(*row(LOCK_LANE, [session_id, epoch]))


@contextmanager
def translated_errors(codes: Mapping[str, type[Fault]] = ERROR_CODES) -> Iterator[None]:
    """Raise the exception that stands for an SQL error code."""
    try:
        with connection.wrap_database_errors:
            yield
    except Exception as error:
        _raise_fault(error, codes)
        raise


def _raise_fault(error: Exception, codes: Mapping[str, type[Fault]]) -> None:
    """Raise the exception that stands for the SQL error code behind this error, if any does."""
    if fault := codes.get(getattr(error.__cause__, "sqlstate", None) or ""):
        raise fault from error


def retry_on_disconnect(write: Callable[[bool], T]) -> T:
    """Repeat a write while the database is unreachable. The writer learns whether it is a
    repetition.

    A lost connection does not tell whether the commit took place, so a repeated write must find
    out.
    """
    end, pause, again = time.monotonic() + RECONNECT_SECONDS, FIRST_PAUSE, False
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
    """Commit a write once, even if the database restarts meanwhile.

    Ids are made before the first attempt, so a repetition that collides was already written.
    """

    def attempt(again: bool) -> None:
        try:
            with transaction.atomic():
                write()
        except IntegrityError:
            if not again:
                raise

    retry_on_disconnect(attempt)
