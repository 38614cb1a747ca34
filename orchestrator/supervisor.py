"""Watches over everything that must not depend on a queue: a plain loop in a process of its own."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import Error, connection

from sessions_app import recovery
from tenants.idempotency import forget_old_answers
from tenants.pulse import beat, forget_old

log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class Duty:
    """Something to do every so often."""

    every: float
    work: Callable[[], object]
    due: float = 0.0


def duties() -> list[Duty]:
    return [
        Duty(every=settings.SUPERVISOR_SECONDS, work=_look_at_lanes),
        Duty(every=2.0, work=lambda: beat("supervisor")),
        Duty(every=1.0, work=recovery.ping_workers),
        Duty(every=600.0, work=forget_old_answers),
        Duty(every=600.0, work=forget_old),
    ]


def _look_at_lanes() -> None:
    seen = recovery.look()
    if seen.reaped or seen.overdue:
        log.warning("lanes_recovered", reaped=len(seen.reaped), overdue=len(seen.overdue))


def supervise(stop: threading.Event) -> None:
    """Do every duty when it is due, until told to stop. One that fails is tried again."""
    todo = duties()
    while not stop.is_set():
        for duty in todo:
            if time.monotonic() < duty.due:
                continue
            duty.due = time.monotonic() + duty.every
            try:
                duty.work()
            except Error:
                log.warning("duty_failed", exc_info=True)
                connection.close()
        stop.wait(min(settings.SUPERVISOR_SECONDS, 1.0))


def stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
