"""Runs a program of `make dev`, and restarts it on SIGHUP: `reloader.py PROGRAM [ARGUMENT…]`.

The modules of other projects are imported once, in this process. Each start forks a child that
imports only the product's own code, so an edit is live in about a second. This file imports
nothing of the product itself: what it imported could not be reloaded.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Importing one of these installs an event loop, which children must not share.
NEVER_PRELOADED = ("daphne", "twisted.internet.reactor")
PR_SET_PDEATHSIG = 1
STOP_WITHIN = 0.2  #: Seconds that a child gets to stop before it is killed.
TOO_SHORT = 5.0  #: A child that ends sooner is broken; the next edit starts it again.


def is_own(module: str) -> bool:
    """Return whether a module is part of the product, and so may be edited."""
    top = module.partition(".")[0]
    return top == "__main__" or (ROOT / top).exists() or (ROOT / f"{top}.py").exists()


def list_foreign_modules() -> list[str]:
    """Import the whole product in a child and return the other modules that this brought in."""
    readable, writable = os.pipe()
    if child := os.fork():
        os.close(writable)
        with os.fdopen(readable) as names:
            found = names.read().split()
        os.waitpid(child, 0)
        return found
    os.close(readable)
    with suppress(Exception), os.fdopen(writable, "w") as names:
        importlib.import_module("config.asgi")
        importlib.import_module("config.urls")
        names.write("\n".join(name for name in sys.modules if not is_own(name)))
    os._exit(0)


def preload(modules: list[str]) -> None:
    """Import modules of other projects; those that need Django's settings are left to the child."""
    settings_module = os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    for name in modules:
        if not name.startswith(NEVER_PRELOADED):
            with suppress(Exception):
                importlib.import_module(name)
    if settings_module:
        os.environ["DJANGO_SETTINGS_MODULE"] = settings_module


def run_program(command: list[str]) -> None:
    """Replace this process by the program, in a new process group that dies with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    run_command(command)


def run_command(command: list[str]) -> None:
    """Run the arguments of a Python command line in this process."""
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")


def start(command: list[str]) -> int:
    """Fork a child that runs the program and return its process id."""
    if child := os.fork():
        return child
    run_program(command)
    sys.exit()  # the usual end of a program: django-q2 waits for its workers there


def stop(child: int) -> None:
    """Ask a child to stop, then kill it with everything in its group."""
    deadline = time.monotonic() + STOP_WITHIN
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGTERM)
        while time.monotonic() < deadline:
            if os.waitpid(child, os.WNOHANG)[0]:
                break
            time.sleep(0.01)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def main() -> None:
    sys.path[0] = str(ROOT)
    sys.dont_write_bytecode = False  # compiling every module again would double the time
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    awaited = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # ignored ones are not delivered
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    preload(list_foreign_modules())
    while True:
        child, began = start(sys.argv[1:]), time.monotonic()
        while (number := signal.sigwait(awaited)) == signal.SIGCHLD:
            with suppress(ChildProcessError):
                if os.waitpid(child, os.WNOHANG)[0] and time.monotonic() - began > TOO_SHORT:
                    break
        stop(child)
        if number in (signal.SIGTERM, signal.SIGINT):
            return


if __name__ == "__main__":
    main()
