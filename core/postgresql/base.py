"""The database backend of all settings: Django's own, with cheaper, warmer and fairly shared pools."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool

from core.exceptions import WorkspaceBusy
from core.fair_slots import FairSlots


def check_connection(borrowed: psycopg.Connection[Any]) -> None:
    """Raise if the server has closed this connection.

    A server that ends a connection says so at once, and an idle connection has nothing else to say.
    So only a connection with something to read costs a round trip.
    """
    waiting = select.poll()
    waiting.register(borrowed.fileno(), select.POLLIN)
    if waiting.poll(0):
        ConnectionPool.check_connection(borrowed)


class NewestFirst(deque[psycopg.Connection[Any]]):
    """Idle connections, the one that was used last first.

    The pool itself takes the one that was used longest ago, whose server process has nothing in the
    processor's caches: its statements take a fifth longer.
    """

    append = deque.appendleft


#: The workspace whose request runs here. Connections that belong to none are not counted.
borrower: ContextVar[Hashable | None] = ContextVar("borrower", default=None)


def largest_share() -> int:
    """Return how many connections one workspace may hold: a quarter is left for others."""
    size: int = settings.DATABASE_POOL
    return size - max(1, size // 4)


shares = FairSlots(each=largest_share, total=lambda: settings.DATABASE_POOL)


class DatabaseWrapper(base.DatabaseWrapper):
    #: The workspace that holds this connection.
    _holder: Hashable | None = None

    @property
    def pool(self) -> ConnectionPool[Any] | None:
        """Return the pool of this database. Django has no setting for its check and its order."""
        pool: ConnectionPool[Any] | None = super().pool
        if pool and not isinstance(pool._pool, NewestFirst):
            pool._check = check_connection
            pool._pool = NewestFirst(pool._pool)
        return pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Borrow a connection, after those that hold fewer. Raise WorkspaceBusy after a while."""
        holder = borrower.get()
        if holder is None or self.pool is None:
            return super().get_new_connection(conn_params)
        if not shares.take(holder, seconds=self.pool.timeout):
            raise WorkspaceBusy
        self._holder = holder
        try:
            return super().get_new_connection(conn_params)
        except BaseException:
            self._return_share()
            raise

    def _set_autocommit(self, autocommit: bool) -> None:
        """Set the mode unless it is set: a borrowed connection is almost always in the right one."""
        if self.connection.autocommit != autocommit:
            super()._set_autocommit(autocommit)  # type: ignore[misc]

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._return_share()

    def _return_share(self) -> None:
        if self._holder is not None:
            shares.give_back(self._holder)
            self._holder = None

    def work_for(self, holder: Hashable | None) -> None:
        """Count the connection of this thread, and those that it borrows next, for a workspace."""
        borrower.set(holder)
        if None in (holder, self.connection, self.pool) or self._holder is not None:
            return
        if shares.take(holder):
            self._holder = holder
        elif not self.in_atomic_block:
            self.close()  # the next statement waits for its turn
