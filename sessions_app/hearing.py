"""Listens to PostgreSQL on connections of its own, and goes on after one was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg

from sessions_app.statements import connect

PAUSE_SECONDS = 0.5


def listen(channel: str) -> psycopg.Connection[Any]:
    """A connection that hears one channel."""
    listener = connect()
    listener.execute(f'LISTEN "{channel}"'.encode())
    return listener


def hear(channel: str, tell: Callable[[UUID], None], *, until: threading.Event) -> None:
    """Tell of every id that is rung, until the end is near."""
    while not until.is_set():
        try:
            with listen(channel) as listener:
                while not until.is_set():
                    for note in listener.notifies(timeout=1, stop_after=1):
                        tell(UUID(note.payload))
        except (psycopg.Error, ValueError):
            until.wait(PAUSE_SECONDS)
