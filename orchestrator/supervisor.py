"""Watches over everything that must not depend on a queue: a plain loop in a process of its own."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import connection

from orchestrator import recovery as workflows
from orchestrator.aside import Biller, Sweeper, Teller
from orchestrator.canvas.ledger import close_left_open
from orchestrator.firing import fire_due as fire_triggers
from orchestrator.firing import forget_old_firings
from orchestrator.taskagent import sweep as tasks
from orchestrator.terminals.records import close_lost
from orchestrator.timers import timers
from sessions_app import recovery
from sessions_app.handover import deliver_left_over
from sessions_app.purse import charge_lost_calls
from sessions_app.schedules import fire_due
from tenants.deliveries import forget_old_deliveries
from tenants.idempotency import forget_old_answers
from tenants.inbox import forget_old_items
from tenants.mail import forget_old_mails
from tenants.pulse import beat, forget_old
from tenants.sandbox_minutes import forget_old_minutes
from tenants.sender import Sender
from tools_app.mcp.discovery import refresh_due
from tools_app.sandbox.container.sweep import leave

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 10.0
LEAVE_SECONDS = 4.0


@dataclass(kw_only=True)
class Duty:
    """Something to do every so often."""

    every: float
    work: Callable[[], object]
    due: float = 0.0


def duties() -> list[Duty]:
    return [
        Duty(every=settings.SUPERVISOR_SECONDS, work=_look_at_lanes),
        Duty(every=settings.SUPERVISOR_SECONDS, work=_look_at_workflows),
        Duty(every=10.0, work=workflows.settle_lost),
        Duty(every=10.0, work=workflows.stop_left_over),
        Duty(every=30.0, work=close_left_open),
        Duty(every=10.0, work=workflows.fail_orphans),
        Duty(every=600.0, work=workflows.forget_old),
        Duty(every=5.0, work=close_lost),
        Duty(every=600.0, work=tasks.forget_erased),
        Duty(every=2.0, work=lambda: beat("supervisor")),
        Duty(every=1.0, work=recovery.ping_workers),
        Duty(every=1.0, work=deliver_left_over),
        Duty(every=1.0, work=fire_due),
        Duty(every=1.0, work=fire_triggers),
        Duty(every=600.0, work=forget_old_firings),
        Duty(every=5.0, work=charge_lost_calls),
        Duty(every=10.0, work=Teller().work),
        Duty(every=20.0, work=refresh_due),
        Duty(every=600.0, work=forget_old_answers),
        Duty(every=600.0, work=forget_old),
        Duty(every=SWEEP_SECONDS, work=Sweeper().work),
        # Twice a minute, so that none is missed; each is charged once.
        Duty(every=30.0, work=Biller().work),
        Duty(every=3600.0, work=forget_old_minutes),
        Duty(every=60.0, work=forget_old_deliveries),
        Duty(every=600.0, work=forget_old_items),
        Duty(every=3600.0, work=forget_old_mails),
    ]


def _briefly(work: Callable[[], object]) -> None:
    """Whoever stops Switchyard waits no longer than this for the engine."""
    thread = threading.Thread(target=work, daemon=True, name="leaving")
    thread.start()
    thread.join(LEAVE_SECONDS)


def _look_at_lanes() -> None:
    seen = recovery.look()
    if seen.reaped or seen.overdue:
        log.warning("lanes_recovered", reaped=len(seen.reaped), overdue=len(seen.overdue))


def _look_at_workflows() -> None:
    seen = workflows.look()
    if seen.reaped or seen.overdue:
        log.warning("workflows_recovered", reaped=len(seen.reaped), overdue=len(seen.overdue))


def supervise(stop: threading.Event) -> None:
    """Do every duty when it is due, and fire timers beside them, until told to stop.

    Webhooks go out on threads of their own: an endpoint that hangs delays no duty.
    """
    Sender(stop).start()
    with timers(stop):
        _do_duties(stop)


def _do_duties(stop: threading.Event) -> None:
    """One that fails, for whatever reason, is tried again and keeps no other from being done."""
    todo = duties()
    while not stop.is_set():
        for duty in todo:
            if time.monotonic() < duty.due:
                continue
            duty.due = time.monotonic() + duty.every
            try:
                duty.work()
            except Exception:
                log.exception("duty_failed")
                connection.close()
        stop.wait(min(settings.SUPERVISOR_SECONDS, 1.0))
    _briefly(leave)


def stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
