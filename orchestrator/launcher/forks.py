"""Forks programs from `up`, so that they share the memory of every module it has imported.

A fork copies only the thread that calls it, so `up` has no other threads and no open connections
when it forks: a lock that another thread holds would never be released in the child.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from django.db import connections

from core import env
from core.logging import logging_config
from orchestrator.launcher.reloader import run_command

#: Elsewhere a process does not learn that its parent died, and programs are started anew.
CAN_FORK = sys.platform == "linux"
#: What the programs import when they start. Daphne itself is left out: importing it opens an
#: event loop, which processes must not share.
PRELOADED = (
    "config.routing",
    "config.urls",
    "core.server",
    "daphne.ws_protocol",
    "django_q.cluster",
    "orchestrator.launcher.web",
    "orchestrator.supervisor",
    "orchestrator.terminals.host",
    "orchestrator.worker",
)
PR_SET_PDEATHSIG = 1
#: The places of `arg_start` and `arg_end` among the fields of /proc/PID/stat after the name.
ARG_START, ARG_END = 45, 46
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def share_memory() -> None:
    """Import what the programs need, and keep the garbage collector from copying it later."""
    for module in PRELOADED:
        importlib.import_module(module)
    for connection in connections.all(initialized_only=True):
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    gc.freeze()


class Fork:
    """A forked child, with the part of Popen's interface that `Process` uses."""

    def __init__(
        self, command: list[str], *, title: str, mark: str, log: Path, descriptors: Collection[int]
    ) -> None:
        if threading.active_count() > 1:
            raise RuntimeError(f"`up` must not fork with threads: {threading.enumerate()}")
        self._process = multiprocessing.get_context("fork").Process(
            target=_run,
            args=(command, os.getpid()),
            kwargs={"title": title, "mark": mark, "log": log, "descriptors": set(descriptors)},
        )
        # The child must not handle a signal as `up` would.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()


def _run(
    command: list[str], parent: int, *, title: str, mark: str, log: Path, descriptors: set[int]
) -> None:
    """Turn this fork into a program that resembles one that was started anew, and run it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        os._exit(1)
    os.setsid()
    _redirect(log)
    _close_others(descriptors)
    _reset_signals()
    os.environ[env.STACK] = mark
    show_title(title)
    logging_config(level=env.text("LOG_LEVEL", "INFO"))
    run_command(command)


def _redirect(log: Path) -> None:
    target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for number in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(target, number)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)


def _close_others(kept: set[int]) -> None:
    """Close what `up` holds: its locks, and the pipe whose end tells the guardian that it died.

    The objects that own these descriptors live as long as this process, so none is closed twice.
    """
    last = 2
    for number in sorted(kept):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def show_title(title: str) -> None:
    """Let `ps` show a title instead of the command line of `up`, in whose place it must fit."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, size = int(fields[ARG_START]), int(fields[ARG_END]) - int(fields[ARG_START])
    if start:
        ctypes.memmove(start, title.encode()[: size - 1].ljust(size, b"\0"), size)
