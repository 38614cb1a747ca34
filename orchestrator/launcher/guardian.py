"""Cleans up what `manage.py up` started, when `up` itself was killed.

The guardian reads a pipe that only `up` holds. The word `bye` means that everything was stopped;
the end of the pipe without it means that `up` is gone. Processes are found by a mark in their
environment, so that grandchildren in other sessions are found as well.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from core.env import STACK
from core.postgres import Embedded

MARK = STACK
LOCK = "guardian"
BYE = b"bye\n"
PATIENCE_SECONDS = 20
DATABASE_PROGRAMS = frozenset({"postgres", "pg_ctl", "initdb"})


def marked(mark: str, *, spare: frozenset[str] = frozenset()) -> list[psutil.Process]:
    """Return the living processes of one stack, whatever session they moved to."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            mine = process.environ().get(MARK, "").startswith(mark)
            alive = process.status() != psutil.STATUS_ZOMBIE
            if mine and alive and process.name() not in spare and process.pid != os.getpid():
                found.append(process)
    return found


def kill_marked(mark: str, *, spare: frozenset[str] = frozenset()) -> None:
    """Kill the processes of one stack, and what they start meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        targets = marked(mark, spare=spare)
        if not targets:
            return
        for process in targets:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(targets, timeout=0.2)


def clean_up(mark: str, data_dir: Path, *, embedded: bool) -> None:
    """Kill everything of the stack. PostgreSQL is stopped, not killed, so that it starts quickly."""
    kill_marked(mark, spare=DATABASE_PROGRAMS)
    if embedded:
        Embedded(data_dir).stop(seconds=5)
    kill_marked(mark)


def main() -> None:
    mark, folder, kind = sys.argv[1:4]
    data_dir = Path(folder)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with (data_dir / "locks" / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the next `up` waits for this lock
        os.chdir("/")
        if not sys.stdin.buffer.read().endswith(BYE):
            clean_up(mark, data_dir, embedded=kind == "embedded")


if __name__ == "__main__":
    main()
