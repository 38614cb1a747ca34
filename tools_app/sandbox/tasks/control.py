"""Starts keepers, checks whether they are alive, and ends them."""

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

from core.env import ROOT, STACK
from tools_app.sandbox.local.processes import has_ended, process_identity
from tools_app.sandbox.local.processes import kill as send
from tools_app.sandbox.tasks.record import Record

#: A keeper ends its command and records the end within this time of being asked.
PATIENCE_SECONDS = 5.0


def start(record: Record) -> int:
    """Start a keeper for this record. Return a handle that becomes readable when it has ended.

    If several are started, one runs the command and the others exit at once.
    """
    with record.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tools_app.sandbox.tasks.keeper", str(record.folder)],
            cwd=ROOT,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    handle = os.pidfd_open(process.pid)
    # It outlives this call and perhaps this process; the thread only reaps it.
    threading.Thread(target=process.wait, daemon=True, name="keeper").start()
    return handle


def open_keeper(record: Record) -> int | None:
    """Return a handle of the record's keeper; None if it is gone, or was on another machine."""
    identity = record.keeper()
    if not identity:
        return None
    try:
        handle = os.pidfd_open(_pid(identity))
    except OSError:
        return None
    # The handle pins one process, so its identity cannot change any more.
    if process_identity(_pid(identity)) == identity:
        return handle
    os.close(handle)
    return None


def is_alive(record: Record) -> bool:
    identity = record.keeper()
    if not identity or record.ending():
        return False
    pid = _pid(identity)
    return process_identity(pid) == identity and not has_ended(pid)


def stop_all(records: Sequence[Record], reason: str, *, seconds: float = PATIENCE_SECONDS) -> int:
    """End these commands and wait for it. Return how many ran. A keeper that does not obey is killed."""
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
    """Leave out the mark by which `up` finds the processes it must end: a command outlives it."""
    told = {name: value for name, value in os.environ.items() if name != STACK}
    return told | {
        "DATA_DIR": str(settings.DATA_DIR),
        "CONTAINER_SOCKET": settings.CONTAINER_SOCKET,
    }
