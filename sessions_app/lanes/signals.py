"""Signals around a run: wake-ups for workers, the stop signal of a run, and waiting for its end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async

from core.channel_layer import watched
from core.db import release_connection
from core.exceptions import NotFound
from sessions_app.exceptions import RunStopped
from sessions_app.live.publisher import session_group
from sessions_app.log.sql import rows
from sessions_app.models import Run

#: The PostgreSQL channel that workers listen to for sessions with work to do.
WAKE_CHANNEL = "switchyard_wake"
#: Statuses in which a run is finished.
FINISHED = {Run.Status.COMPLETED, Run.Status.FAILED, Run.Status.CANCELLED, Run.Status.DEAD}
#: A notification may be lost, so a waiter also reads the run this often.
POLL_SECONDS = 10.0


def wake(session_id: UUID) -> None:
    """Ask a worker to look at this session when the surrounding transaction commits.

    Waking a session twice, or one without work, is harmless.
    """
    wake_many([session_id])


def wake_many(session_ids: Sequence[UUID]) -> None:
    """Ask workers to look at these sessions."""
    rows(
        "SELECT pg_notify(%s, i) FROM unnest(%s::text[]) i",
        [WAKE_CHANNEL, [str(i) for i in session_ids]],
    )


class StopSignal:
    """Tells a run, and everything it waits for, to stop.

    It is sent once. Callbacks run at once, in the thread that sends it.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason = ""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def send(self, reason: str) -> None:
        """Stop the run. Only the first reason counts."""
        with self._lock:
            if self.event.is_set():
                return
            self.reason = reason
            self.event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise RunStopped if the signal was sent."""
        if self.event.is_set():
            raise RunStopped(self.reason)

    @contextmanager
    def on_stop(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call the callback if the signal is sent while the block runs, or was sent before."""
        with self._lock:
            sent = self.event.is_set()
            if not sent:
                self._callbacks.append(callback)
        if sent:
            callback()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)


async def await_run(run_id: UUID, seconds: float) -> Run:
    """Return the run once it is finished, or in its current state when the time is up."""
    end = time.monotonic() + seconds
    run = await _read_run(run_id)
    if run.status in FINISHED or seconds <= 0:
        return run
    return await watched(
        session_group(run.session_id),
        partial(_read_run, run_id),
        is_over=lambda found: found.status in FINISHED,
        seconds=end - time.monotonic(),
        every=POLL_SECONDS,
    )


@sync_to_async
def _read_run(run_id: UUID) -> Run:
    run = Run.objects.filter(pk=run_id).first()
    release_connection()
    if run is None:
        raise NotFound
    return run


def wait_for_run(run_id: UUID, seconds: float) -> Run:
    """Do the same as `await_run` in synchronous code.

    The wait has an event loop on another thread, which Python joins when it exits. So an interrupt
    of this thread cancels the wait, or the process would only end with the wait.
    """
    tasks: list[asyncio.Task[Run]] = []

    async def wait() -> Run:
        tasks.append(asyncio.ensure_future(await_run(run_id, seconds)))
        return await tasks[0]

    try:
        return async_to_sync(wait)()
    except (KeyboardInterrupt, SystemExit):
        for task in tasks:
            with suppress(RuntimeError):  # the loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)
        raise
