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
from uuid import UUID

import psycopg
import structlog
from django.conf import settings
from django.db import DatabaseError

from core.db import release_connection
from core.exceptions import Fault
from core.lease_host import owner_of
from core.pg_listen import listen
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
    done = threading.Event()
    renewer = threading.Thread(
        target=_renew_until,
        args=(claim, stop_signal, done),
        name=f"lease {claim.session_id}",
        daemon=True,
    )
    renewer.start()
    try:
        yield
    finally:
        done.set()
        renewer.join()


def _renew_until(claim: Claim, stop_signal: StopSignal, done: threading.Event) -> None:
    while not done.is_set():
        try:
            with listen(STOP_CHANNEL) as listener:
                _listen_and_renew(listener, claim, stop_signal, done)
        except (psycopg.Error, DatabaseError):
            log.warning("heartbeat_failed", session_id=str(claim.session_id))
            done.wait(PAUSE_SECONDS)
        finally:
            release_connection()


def _listen_and_renew(
    listener: psycopg.Connection, claim: Claim, stop_signal: StopSignal, done: threading.Event
) -> None:
    due = 0.0
    while not done.is_set():
        if time.monotonic() >= due:
            held = run_queue.heartbeat(owner(), [claim.session_id])
            release_connection()
            if held.get(claim.session_id) != claim.epoch and not done.is_set():
                stop_signal.send("fenced")
            due = time.monotonic() + settings.HEARTBEAT_SECONDS
        for note in listener.notifies(timeout=0.2, stop_after=1):
            if note.payload == str(claim.session_id):
                stop_signal.send("interrupted")
