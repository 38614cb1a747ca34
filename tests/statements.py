"""Records every statement that this process sends to PostgreSQL, whichever way it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

#: Commands of a transaction. They depend on whether a test runs in a transaction itself.
OF_TRANSACTIONS = ("SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "COMMIT")


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """Collect the statements of the block, without those that begin and end transactions."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def record(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        if not text.lstrip().startswith(OF_TRANSACTIONS):
            statements.append(" ".join(text.split()))
        return execute(self, query, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", record)
        yield statements
