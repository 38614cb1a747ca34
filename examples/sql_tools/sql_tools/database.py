"""Reads the database: its tables, their columns and the rows of a query. Nothing here can write.

SQLite is opened read-only, with an authorizer that allows reading alone. PostgreSQL gets one prepared
statement in a read-only transaction with a timeout; use a role that may only read as well.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import structlog
from django.conf import settings

from tenants.models import Workspace
from tools_app.exceptions import ToolFailed

log = structlog.get_logger(__name__)

LONGEST_CELL = 500
READS = re.compile(r"\s*(select|with|values|table)\b", re.IGNORECASE)
#: What SQLite may do for a query that is not ours.
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
SQLITE_COLUMNS = 'SELECT name, type, "notnull" = 0 FROM pragma_table_info(?)'
POSTGRES_TABLES = """
SELECT table_name FROM information_schema.tables
 WHERE table_schema = ANY (current_schemas(false)) ORDER BY table_name
"""
POSTGRES_COLUMNS = """
SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
 WHERE table_schema = ANY (current_schemas(false)) AND table_name = %s ORDER BY ordinal_position
"""


@dataclass(frozen=True, kw_only=True)
class Column:
    name: str
    type: str
    may_be_null: bool


@dataclass(frozen=True, kw_only=True)
class Result:
    """The first rows of a query."""

    columns: list[str]
    rows: list[list[Any]]
    #: Whether the query has more rows than these.
    more: bool

    def as_json(self) -> dict[str, Any]:
        return {"columns": self.columns, "rows": self.rows, "more": self.more}


def may_read(workspace_id: UUID) -> bool:
    """Return whether the operator opened the database to this workspace."""
    allowed = settings.SQL_TOOLS_WORKSPACES
    if not settings.SQL_TOOLS_URL or not allowed:
        return False
    return "*" in allowed or Workspace.objects.filter(pk=workspace_id, slug__in=allowed).exists()


def check_may_read(workspace_id: UUID) -> None:
    if not may_read(workspace_id):
        raise ToolFailed("No database is open to this workspace. Its operator can open one.")


def list_tables() -> list[str]:
    with _reading() as read:
        return [row[0] for row in read(SQLITE_TABLES if _is_sqlite() else POSTGRES_TABLES, ())]


def describe_table(name: str) -> list[Column]:
    with _reading() as read:
        found = list(read(SQLITE_COLUMNS if _is_sqlite() else POSTGRES_COLUMNS, (name,)))
    if not found:
        raise ToolFailed(f"There is no table {name!r}. Known: {', '.join(list_tables())[:1000]}.")
    return [Column(name=row[0], type=row[1], may_be_null=bool(row[2])) for row in found]


def run_query(query: str, *, most: int | None = None) -> Result:
    """Return the first rows of one reading statement."""
    if not READS.match(query):
        raise ToolFailed("Only a SELECT is possible: the database cannot be changed from here.")
    bound = min(most or settings.SQL_TOOLS_ROWS, settings.SQL_TOOLS_ROWS)
    if not _is_sqlite():
        # All rows of an answer are fetched at once, while SQLite hands them out one by one.
        query = f"SELECT * FROM ({query.strip().rstrip(';')}\n) AS answer LIMIT {bound + 1}"  # noqa: S608
    columns: list[str] = []
    with _reading(columns) as read:
        rows = [[_cell(value) for value in row] for row in islice(read(query, None), bound + 1)]
    return Result(columns=columns, rows=rows[:bound], more=len(rows) > bound)


def _cell(value: Any) -> Any:
    """Return a value that JSON can hold, and not more of it than a model needs."""
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"


def _is_sqlite() -> bool:
    return urlsplit(settings.SQL_TOOLS_URL).scheme == "sqlite"


@contextmanager
def _reading(columns: list[str] | None = None) -> Iterator[Any]:
    """Yield a function that runs one statement and returns its rows.

    A query that is not ours comes with a list that its columns are added to.
    """
    try:
        with closing(_open(is_guarded=columns is not None)) as connection:

            def read(query: str, given: Sequence[Any] | None) -> Iterable[Any]:
                cursor = connection.cursor()
                if _is_sqlite():
                    cursor.execute(query, given or ())
                else:
                    # A prepared statement is one statement, and the transaction cannot write.
                    cursor.execute(query, given, prepare=True)
                if columns is not None:
                    columns.extend(one[0] for one in cursor.description or ())
                return cursor

            yield read
    except (sqlite3.Error, psycopg.Error) as error:
        raise ToolFailed(f"The database answers: {str(error).strip()[:500]}") from error


def _open(*, is_guarded: bool) -> Any:
    try:
        return _open_sqlite(is_guarded=is_guarded) if _is_sqlite() else _open_postgres()
    except (sqlite3.Error, psycopg.Error) as error:
        # The reason names hosts and files of the operator.
        log.warning("sql_tools_unreachable", why=str(error))
        raise ToolFailed("The database cannot be reached.") from error


def _open_sqlite(*, is_guarded: bool) -> Any:
    path = Path(urlsplit(settings.SQL_TOOLS_URL).path)
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    deadline = time.monotonic() + settings.SQL_TOOLS_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    if is_guarded:
        connection.set_authorizer(
            lambda action, *about: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY
        )
    return connection


def _open_postgres() -> Any:
    seconds = settings.SQL_TOOLS_SECONDS
    options = f"-c default_transaction_read_only=on -c statement_timeout={int(seconds * 1000)}"
    return psycopg.connect(settings.SQL_TOOLS_URL, options=options, connect_timeout=5)
