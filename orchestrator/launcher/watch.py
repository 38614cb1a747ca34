"""Watches for programs that hang: `-m orchestrator.launcher.watch REPORTS NAME=PORT…`.

A process of its own asks, because a check may take long and `up` must not have threads when it
forks. It writes the name of each program that hangs to the descriptor REPORTS, one per line. The
other arguments are the web processes and the ports of their checks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

import django
from django.conf import settings
from django.db import Error, connections

from orchestrator.launcher.checks import Health, ask_health

CHECKS_IN_TIME = 9  #: Checks in the time after which a program hangs.
ANSWERS_WITHIN = 10.0
PINGS_WITHIN = 10.0  #: A supervisor whose pulse is younger has pinged the workers lately.
#: Checks in a row that must agree: the first after a laptop woke up proves nothing.
CHECKS = 3

#: Returns the seconds since the last sign of life, or None when that is unknown.
SignOfLife = Callable[[], float | None]


class HangWatch:
    """Finds the programs that have given no sign of life in several checks."""

    def __init__(self, signs: dict[str, SignOfLife]) -> None:
        self._signs = signs
        self._silent = dict.fromkeys(signs, 0)

    def check(self) -> list[str]:
        """Check every program once, and return the names of those that hang."""
        for name, sign in self._signs.items():
            age = sign()
            self._silent[name] = (
                self._silent[name] + 1 if age and age > settings.HANG_SECONDS else 0
            )
        return [name for name, times in self._silent.items() if times >= CHECKS]


def pulse_of(kind: str, *, pinged_by: str | None = None) -> SignOfLife:
    """Return a reader of the latest pulse of a kind of process, which may beat only when pinged."""

    def read() -> float | None:
        from tenants.pulse import pulse_age  # needs Django to be set up

        try:
            if pinged_by and (pulse_age(pinged_by) or settings.HANG_SECONDS) > PINGS_WITHIN:
                return None  # it was not pinged, so silence proves nothing
            return pulse_age(kind)
        except Error:  # the database is unreachable, which proves nothing about the process
            return None

    return read


def answers_of(ask: Callable[[], Health]) -> SignOfLife:
    """Return a reader of the time since the web server answered, whatever it answered."""
    last = time.monotonic()

    def read() -> float:
        nonlocal last
        if ask().answered:
            last = time.monotonic()
        return time.monotonic() - last

    return read


def list_signs(web: list[str]) -> dict[str, SignOfLife]:
    """Return the signs of life of every program."""
    from orchestrator.launcher.parts import read_plan

    found = {
        "workers": pulse_of("worker", pinged_by="supervisor"),
        "supervisor": pulse_of("supervisor"),
        "terminals": pulse_of("terminals"),
    }
    for argument in web:
        name, _, port = argument.partition("=")
        ask = partial(
            ask_health, "127.0.0.1", int(port), name=read_plan().host_name, seconds=ANSWERS_WITHIN
        )
        found[name] = answers_of(ask)
    return found


def main() -> None:
    django.setup()
    reports, *web = sys.argv[1:]
    watch = HangWatch(list_signs(web))
    while True:
        time.sleep(settings.HANG_SECONDS / CHECKS_IN_TIME)
        for name in watch.check():
            os.write(int(reports), f"{name}\n".encode())
        connections.close_all()  # a restarted database needs new connections


if __name__ == "__main__":
    main()
