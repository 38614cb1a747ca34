"""Starts keepers, tells whether they live, and ends them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from django.conf import settings

from config.env import ROOT, STACK
from tools_app.sandbox.kept.record import Record
from tools_app.sandbox.leftovers import identity_of
from tools_app.sandbox.leftovers import kill as send
from tools_app.sandbox.watch import has_ended

#: A keeper that was asked ends its command and says so within this time.
PATIENCE_SECONDS = 5.0


def start(record: Record) -> int:
    """Start a keeper for this record. A handle that is readable when that process has ended.

    Of several only one keeps the command; the others leave at once.
    """
    with record.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tools_app.sandbox.kept.keeper", str(record.folder)],
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    handle = os.pidfd_open(process.pid)
    # It outlives this call and perhaps this process, and nobody has to wait for it.
    threading.Thread(target=process.wait, daemon=True, name="keeper").start()
    return handle


def open_keeper(record: Record) -> int | None:
    """A handle on the keeper of this record; None when it is gone, or was on another machine."""
    identity = record.keeper()
    if not identity:
        return None
    try:
        handle = os.pidfd_open(_pid(identity))
    except OSError:
        return None
    # The handle holds on to one process, so its identity cannot change any more.
    if identity_of(_pid(identity)) == identity:
        return handle
    os.close(handle)
    return None


def is_alive(record: Record) -> bool:
    identity = record.keeper()
    if not identity or record.ending():
        return False
    pid = _pid(identity)
    return identity_of(pid) == identity and not has_ended(pid)


def end_all(records: Sequence[Record], reason: str, *, seconds: float = PATIENCE_SECONDS) -> int:
    """Have these commands end, and see it. How many ran. Who does not obey is killed."""
    for record in records:
        if record.ending() is None:
            record.ask_to_stop(reason)
    alive = [record for record in records if is_alive(record)]
    for record in alive:
        _signal(record, signal.SIGTERM)
    until = time.monotonic() + seconds
    for record in alive:
        if not _wait(record, until):
            _signal(record, signal.SIGKILL)
            _wait(record, time.monotonic() + PATIENCE_SECONDS)
    return len(alive)


def _signal(record: Record, number: int) -> None:
    identity = record.keeper()
    send(_pid(identity), identity, number)


def _wait(record: Record, until: float) -> bool:
    handle = open_keeper(record)
    if handle is None:
        return True
    try:
        return bool(select.select([handle], [], [], max(0.0, until - time.monotonic()))[0])
    finally:
        os.close(handle)


def _pid(identity: str) -> int:
    return int(identity.partition(".")[0])


def _environment() -> dict[str, str]:
    """Without the mark by which `up` finds what it has to end: a command outlives it."""
    told = {name: value for name, value in os.environ.items() if name != STACK}
    return told | {
        "DATA_DIR": str(settings.DATA_DIR),
        "CONTAINER_SOCKET": settings.CONTAINER_SOCKET,
    }
