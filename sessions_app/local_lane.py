"""Serves a lane on the caller's own thread, without a worker: for Python callers and commands.

The rules are those of every worker: a lease that is kept alive, an epoch that fences, a stop that
is heard at once.
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

from config.faults import Fault
from sessions_app import harness, lanes
from sessions_app.hearing import listen
from sessions_app.host import STOP_CHANNEL, owner_of
from sessions_app.lanes import Claim
from sessions_app.stopping import StopSign
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.5


def owner() -> UUID:
    """Who holds the lanes that this process serves."""
    return owner_of(os.getpid())


def serve(claim: Claim | None, *, until: UUID | None = None) -> list[UUID]:
    """Take this run to its end and those that follow it in its lane. Answers with all of them.

    With `until`, the runs after that one are left to others.
    """
    served: list[UUID] = []
    while claim:
        following = _run(claim)
        served.append(claim.run_id)
        if claim.run_id == until and following:
            lanes.release(following, reason="handed on")
            break
        claim = following
    return served


def _run(claim: Claim) -> Claim | None:
    sign = StopSign()
    try:
        with kept_alive(claim, sign):
            return harness.run(claim, owner(), sign)
    except BaseException:
        # Also on Ctrl-C: somebody else goes on at once, not when the lease has run out.
        with suppress(Fault, DatabaseError):
            lanes.release(claim, reason="shutdown")
        raise


@contextmanager
def kept_alive(claim: Claim, sign: StopSign) -> Iterator[None]:
    """Renew the lease while the block runs, and pass on what should end it."""
    done = threading.Event()
    keeper = threading.Thread(
        target=_keep, args=(claim, sign, done), name=f"keep {claim.session_id}", daemon=True
    )
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()


def _keep(claim: Claim, sign: StopSign, done: threading.Event) -> None:
    while not done.is_set():
        try:
            with listen(STOP_CHANNEL) as listener:
                _listen_and_beat(listener, claim, sign, done)
        except (psycopg.Error, DatabaseError):
            log.warning("heartbeat_failed", session_id=str(claim.session_id))
            done.wait(PAUSE_SECONDS)
        finally:
            let_go()


def _listen_and_beat(
    listener: psycopg.Connection, claim: Claim, sign: StopSign, done: threading.Event
) -> None:
    due = 0.0
    while not done.is_set():
        if time.monotonic() >= due:
            held = lanes.heartbeat(owner(), [claim.session_id])
            let_go()
            if held.get(claim.session_id) != claim.epoch and not done.is_set():
                sign.give("fenced")
            due = time.monotonic() + settings.HEARTBEAT_SECONDS
        for note in listener.notifies(timeout=0.2, stop_after=1):
            if note.payload == str(claim.session_id):
                sign.give("interrupted")
