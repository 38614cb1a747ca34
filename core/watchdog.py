"""Ends a web process that cannot serve any more, so that it is started again.

Such a process may still answer requests that need no database, so nothing outside can tell. A thread
asks for what every request needs, as a request would: a connection of the pool and a thread.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import psycopg
import structlog
from django.db import connections
from psycopg_pool import ConnectionPool, PoolTimeout

from core.db import connect
from core.postgresql.base import DatabaseWrapper

log = structlog.get_logger(__name__)

#: The exit code of a process that ended itself.
EXIT_CODE = 70
CHECKS_IN_TIME = 9


def start_watchdog(threads: ThreadPoolExecutor, *, seconds: float) -> None:
    """Watch this process. Both pools serve in turn, so waiting `seconds` in vain means they are stuck."""
    watch = threading.Thread(target=_watch, args=(threads, seconds), name="watchdog", daemon=True)
    watch.start()


def _watch(threads: ThreadPoolExecutor, seconds: float) -> None:
    while True:
        time.sleep(seconds / CHECKS_IN_TIME)
        if reason := find_stuck(threads, _pool(), seconds=seconds):
            log.critical("web_process_ends_itself", reason=reason)
            os._exit(EXIT_CODE)


def _pool() -> ConnectionPool | None:
    return cast(DatabaseWrapper, connections["default"]).pool


def find_stuck(threads: ThreadPoolExecutor, pool: ConnectionPool | None, *, seconds: float) -> str:
    """Return which of the pools is stuck, or an empty string."""
    try:
        threads.submit(int).result(timeout=seconds)
    except TimeoutError:
        return "no thread for requests became free"
    if pool is not None and not _gives_connection(pool, seconds) and _database_answers():
        return "no connection to the database became free"
    return ""


def _gives_connection(pool: ConnectionPool, seconds: float) -> bool:
    try:
        pool.open()
        pool.putconn(pool.getconn(timeout=seconds))
    except PoolTimeout:
        return False
    except psycopg.Error:
        log.warning("connection_not_checked", exc_info=True)
    return True


def _database_answers() -> bool:
    """Return whether the database itself works. A new process could not reach it otherwise."""
    try:
        with connect(connect_timeout=5):
            return True
    except psycopg.Error:
        return False
