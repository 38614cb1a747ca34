"""Serves a lane on the caller's thread, without a worker, for Python callers and commands.

The rules are those of every worker: a lease that is renewed, an epoch that fences, and a stop
signal that is seen at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError

from core.db import release_connection
from core.exceptions import Fault
from core.lease_host import owner_of
from core.pg_listen import subscribe
from sessions_app.harness import loop
from sessions_app.lanes import run_queue
from sessions_app.lanes.host import STOP_CHANNEL
from sessions_app.lanes.run_queue import Claim
from sessions_app.lanes.signals import StopSignal

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.5


def owner() -> UUID:
    """Return the owner of the lanes that this process serves."""
    return owner_of(os.getpid())


def serve(claim: Claim | None, *, until: UUID | None = None) -> list[UUID]:
    """Take this run and the runs that follow it to their end, and return their ids.

    Runs after `until` are left to other workers.
    """
    served: list[UUID] = []
    while claim:
        following = _run(claim)
        served.append(claim.run_id)
        if claim.run_id == until and following:
            run_queue.release(following, reason="handed on")
            break
        claim = following
    return served


def _run(claim: Claim) -> Claim | None:
    stop_signal = StopSignal()
    try:
        with keep_lease(claim, stop_signal):
            return loop.run(claim, owner(), stop_signal)
    except BaseException:
        # Also on Ctrl-C: another worker goes on at once, not when the lease expires.
        with suppress(Fault, DatabaseError):
            run_queue.release(claim, reason="shutdown")
        raise


@contextmanager
def keep_lease(claim: Claim, stop_signal: StopSignal) -> Iterator[None]:
    """Renew the lease while the block runs, and pass on signals that end the run."""
    stops: SimpleQueue[str | None] = SimpleQueue()
    renewer = threading.Thread(
        target=_renew_until,
        args=(claim, stop_signal, stops),
        name=f"lease {claim.session_id}",
        daemon=True,
    )
    renewer.start()
    try:
        yield
    finally:
        stops.put(None)
        renewer.join()


def _renew_until(claim: Claim, stop_signal: StopSignal, stops: SimpleQueue[str | None]) -> None:
    """Renew the lease at every heartbeat and pass on stops, until the queue holds None."""
    stopped: str | None = ""
    due = 0.0
    # A stop that was missed shows in the epoch, so the lease is renewed first, and after a gap.
    with subscribe(STOP_CHANNEL, stops.put, missed=lambda: stops.put("")):
        while stopped is not None:
            if stopped == str(claim.session_id):
                stop_signal.send("interrupted")
            if not stopped or time.monotonic() >= due:
                due = time.monotonic() + _renew(claim, stop_signal)
            try:
                stopped = stops.get(timeout=max(0.0, due - time.monotonic()))
            except Empty:
                stopped = ""


def _renew(claim: Claim, stop_signal: StopSignal) -> float:
    """Renew the lease, and return the seconds until it is to be renewed again."""
    try:
        held = run_queue.heartbeat(owner(), [claim.session_id])
    except DatabaseError:
        log.warning("heartbeat_failed", session_id=str(claim.session_id))
        return PAUSE_SECONDS
    finally:
        release_connection()
    if held.get(claim.session_id) != claim.epoch:
        stop_signal.send("fenced")
    return settings.HEARTBEAT_SECONDS
