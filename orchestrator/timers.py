"""Fires timers on time: sleeps until the next is due, and listens for one that is due sooner."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import structlog
from django.db import Error

from orchestrator.recovery import fire_due, seconds_to_next
from sessions_app.hearing import listen
from tenants.off_loop import let_go

if TYPE_CHECKING:
    from collections.abc import Iterator

log = structlog.get_logger(__name__)

CHANNEL = "switchyard_timer"
#: The longest sleep: a stop is seen, and a lost ring made up for, within it.
LOOK_SECONDS = 1.0
#: A timer that is due is fired a little later rather than looked for again and again.
SHORTEST_SECONDS = 0.001


def keep_time(stop: threading.Event) -> None:
    """Fire what is due until told to stop."""
    while not stop.is_set():
        try:
            with listen(CHANNEL) as listener:
                while not stop.is_set():
                    fire_due()
                    _sleep(listener, seconds_to_next())
        except (psycopg.Error, Error):
            log.warning("timers_failed", exc_info=True)
            stop.wait(0.5)
        finally:
            let_go()


def _sleep(listener: psycopg.Connection[Any], due: float | None) -> None:
    seconds = LOOK_SECONDS if due is None else min(max(due, SHORTEST_SECONDS), LOOK_SECONDS)
    for _ in listener.notifies(timeout=seconds, stop_after=1):
        pass


@contextmanager
def timers(stop: threading.Event) -> Iterator[None]:
    """A thread that keeps time while the block runs."""
    thread = threading.Thread(target=keep_time, args=(stop,), name="timers", daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(5)
