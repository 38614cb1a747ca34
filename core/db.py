"""Connections, row locks, saving and caching of rows, and batches that survive a failing row."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import psycopg
import structlog
from asgiref.sync import sync_to_async
from django.db import (
    DEFAULT_DB_ALIAS,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    models,
    transaction,
)
from django.db.models.base import ModelState
from psycopg.errors import UniqueViolation
from pydantic import BaseModel

from core.exceptions import Conflict, NotFound

if TYPE_CHECKING:
    from core.postgresql.base import DatabaseWrapper

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=models.Model)
K = TypeVar("K", bound=Hashable)

#: How long, and how many rows a cache keeps.
CACHE_SECONDS = 5.0
MOST_CACHED = 5_000
#: How long an expired value is still returned while one thread loads it.
RELOAD_SECONDS = 0.5


def release_connection() -> None:
    """Return the connection to the pool before waiting for something other than the database."""
    database = connections[DEFAULT_DB_ALIAS]
    if not database.in_atomic_block:
        database.close()


def work_for(holder: Hashable | None) -> None:
    """Count the connections that this thread borrows for a workspace, up to the workspace's share."""
    cast("DatabaseWrapper", connection).work_for(holder)


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous code on a thread of the loop's pool and release its connection."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            release_connection()

    return await sync_to_async(call, thread_sensitive=False)()


def connect(**more: Any) -> psycopg.Connection[Any]:
    """Open a connection to Django's database outside its pool, to listen or to work beside a fork."""
    parameters = connection.get_connection_params() | more
    for only_for_django in ("cursor_factory", "context", "prepare_threshold"):
        parameters.pop(only_for_django, None)
    return psycopg.connect(autocommit=True, **parameters)


def prepared_rows(query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that the server plans once per connection.

    Django's cursor sends a new text each time, whose planning can cost more than its execution.
    """
    database = connections[DEFAULT_DB_ALIAS]  # looked up once, not at each use of `connection`
    database.ensure_connection()
    with database.wrap_database_errors, psycopg.Cursor(database.connection) as cursor:
        return cursor.execute(query.encode(), params).fetchall()


def copy_row(row: M) -> M:
    """Return what `copy.copy` returns for a row, ten times as fast as its way of pickling does."""
    copied = type(row).__new__(type(row))
    copied.__dict__.update(row.__dict__)
    copied._state = ModelState()
    copied._state.__dict__.update(row._state.__dict__)
    copied._state.fields_cache = row._state.fields_cache.copy()
    return copied


def lock_row(row: M) -> M:
    """Return the current row, locked until the commit. Raise NotFound if it was deleted."""
    return _lock(row, to_delete=False)


@transaction.atomic
def delete_row(row: models.Model) -> None:
    """Delete a row and the rows that depend on it.

    The row is locked first: dependent rows inserted meanwhile would otherwise fail the commit.
    """
    _lock(row, to_delete=True).delete()


def _lock(row: M, *, to_delete: bool) -> M:
    rows = type(row)._default_manager.select_for_update(no_key=not to_delete)
    locked = rows.filter(pk=row.pk).first()
    if locked is None:
        raise NotFound
    return locked


def save_row(row: M, given: BaseModel, *, what: str) -> M:
    """Save the validated fields, and reload the row as the database has it.

    Raise Conflict if another row has the name; `what` begins the message.
    """
    fields = given.model_dump(mode="json")
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        raise Conflict(f"{what} is already named {fields['name']!r}.") from None
    row.refresh_from_db()
    return row


def for_each(rows: Iterable[T], act: Callable[[T], object]) -> list[T]:
    """Call `act` with every row and return those for which it returned something true.

    An exception skips its row and is logged; only a lost database ends the batch.
    """
    return [row for row in rows if _succeeds(act, row)]


def _succeeds(act: Callable[[T], object], row: T) -> bool:
    try:
        return bool(act(row))
    except (OperationalError, InterfaceError):
        raise  # the database is gone, for every row
    except Exception:
        log.exception("row_left_out", row=str(row), act=act.__name__)
        return False


class TimedCache(Generic[K, T]):
    """Caches loaded values for a few seconds. One thread loads an expired value again.

    It has no lock that a forked child could inherit: two threads may both load, which is harmless.
    """

    def __init__(self, load: Callable[[K], T], *, seconds: float = CACHE_SECONDS) -> None:
        self._load = load
        self._seconds = seconds
        self._entries: dict[K, tuple[float, T]] = {}

    def get(self, key: K) -> T:
        now = time.monotonic()
        entry = self._entries.get(key)
        if entry and now - entry[0] < self._seconds:
            return entry[1]
        if entry and now - entry[0] < 2 * self._seconds:
            # The other threads take what is known for another moment, and do not all load at once.
            self._entries[key] = (now - self._seconds + RELOAD_SECONDS, entry[1])
        value = self._load(key)
        if len(self._entries) >= MOST_CACHED:
            self._entries = {}
        self._entries[key] = (now, value)
        return value

    def forget(self, key: K) -> None:
        """Drop a value now, and again after the commit that makes its change visible."""
        self._entries.pop(key, None)
        transaction.on_commit(lambda: self._entries.pop(key, None))
