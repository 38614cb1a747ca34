"""What the operating system is told about child processes."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36

BOUND = Path(__file__).with_name("bound.py")
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def bound(command: list[str]) -> list[str]:
    """Extend a command line so that its process is killed when this one ends."""
    return [sys.executable, "-I", "-S", str(BOUND), str(os.getpid()), *command]


def adopt_orphans() -> None:
    """Become the parent of grandchildren that lose theirs, PostgreSQL among them."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def bury_strangers(known: set[int]) -> None:
    """Collect dead adopted processes. A dead PostgreSQL cannot be replaced before that."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in known:  # whoever started it wants its exit code
            return
        os.waitpid(dead.si_pid, 0)
