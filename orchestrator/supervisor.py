"""The supervisor: a plain loop in its own process that does what must not depend on a queue."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection

from core.db import for_each
from orchestrator.canvas.tool_node import close_lost_calls
from orchestrator.engine import recovery as workflows
from orchestrator.engine.recovery import timers
from orchestrator.tasks import sandbox as tasks
from orchestrator.tasks.billing import payers_of_sandboxes
from orchestrator.tasks.sandbox import TaskSandbox
from orchestrator.terminals.records import close_lost, close_session_terminals
from orchestrator.triggers import delete_old_firings, fire_due_triggers
from sessions_app.harness.model_call import charge_lost_calls
from sessions_app.lanes import recovery
from sessions_app.sandbox_billing import OutOfMoney, charge_running, stop_unpaid
from sessions_app.schedules.schedules import fire_due_schedules
from sessions_app.subagents.spawns import deliver_pending
from tenants.billing.spending import delete_old_minutes
from tenants.idempotency import forget_old_answers
from tenants.notifications.deliveries import forget_old_deliveries
from tenants.notifications.inbox import forget_old_items
from tenants.notifications.mail import forget_old_mails
from tenants.notifications.notices import tell_low_credits
from tenants.notifications.sender import Sender
from tenants.pulse import beat, delete_old_pulses
from tools_app.mcp.servers import refresh_due
from tools_app.sandbox.container.claims import sessions_with_claims
from tools_app.sandbox.container.lifecycle import remove_unused_containers, sweep

log = structlog.get_logger(__name__)


class BackgroundJob:
    """A duty that runs on a background thread, once at a time. After a failure it runs when next due."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, act: Callable[[], object]) -> None:
        """Start it and return at once; do nothing while the last run is not over."""
        if not self.is_busy:
            name = type(self).__name__.lower()
            self._thread = threading.Thread(target=_do, args=[act], name=name, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the current run is over."""
        if self._thread:
            self._thread.join()


def _do(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.exception("duty_failed")
    finally:
        connection.close()


class SandboxSweeper(BackgroundJob):
    """Removes containers and task sandboxes that are no longer needed."""

    def work(self) -> None:
        if self.is_busy:
            return
        sessions, unneeded = sessions_with_claims(), tasks.unneeded()
        if sessions or unneeded:
            living = recovery.living_sessions(sessions) | tasks.needed(sessions)
            self.begin(partial(_sweep, sessions, living, unneeded))


def _sweep(sessions: list[UUID], living: set[UUID], unneeded: list[TaskSandbox]) -> None:
    if sessions:
        sweep(sessions, living)
    tasks.close_all(unneeded)


class SandboxBiller(BackgroundJob):
    """Charges running sandboxes, and stops those that are no longer paid for."""

    def work(self) -> None:
        if settings.SANDBOX_MINUTE_PRICE > 0:
            self.begin(_charge)


def _charge() -> None:
    for_each(charge_running(payers_of_sandboxes).unpaid.items(), _end_unpaid)


def _end_unpaid(found: tuple[UUID, OutOfMoney]) -> None:
    session_id, fault = found
    close_session_terminals(session_id, fault.detail)
    stop_unpaid(session_id, fault)


class LowCreditsNotifier(BackgroundJob):
    """Notifies workspaces that few credits are left, also by mail."""

    def work(self) -> None:
        self.begin(tell_low_credits)


SWEEP_SECONDS = 10.0
LEAVE_SECONDS = 4.0


@dataclass(kw_only=True)
class Duty:
    """Something to do at an interval."""

    every: float
    work: Callable[[], object]
    due: float = 0.0


def duties() -> list[Duty]:
    return [
        Duty(every=settings.SUPERVISOR_SECONDS, work=_recover_lanes),
        Duty(every=settings.SUPERVISOR_SECONDS, work=_recover_workflows),
        Duty(every=10.0, work=workflows.settle_lost),
        Duty(every=10.0, work=workflows.stop_abandoned),
        Duty(every=30.0, work=close_lost_calls),
        Duty(every=10.0, work=workflows.fail_orphans),
        Duty(every=600.0, work=workflows.delete_expired),
        Duty(every=5.0, work=close_lost),
        Duty(every=600.0, work=tasks.forget_erased),
        Duty(every=2.0, work=lambda: beat("supervisor")),
        Duty(every=1.0, work=recovery.ping_workers),
        Duty(every=1.0, work=deliver_pending),
        Duty(every=1.0, work=fire_due_schedules),
        Duty(every=1.0, work=fire_due_triggers),
        Duty(every=600.0, work=delete_old_firings),
        Duty(every=5.0, work=charge_lost_calls),
        Duty(every=10.0, work=LowCreditsNotifier().work),
        Duty(every=20.0, work=refresh_due),
        Duty(every=600.0, work=forget_old_answers),
        Duty(every=600.0, work=delete_old_pulses),
        Duty(every=SWEEP_SECONDS, work=SandboxSweeper().work),
        # Twice a minute, so that no minute is missed; each is charged once.
        Duty(every=30.0, work=SandboxBiller().work),
        Duty(every=3600.0, work=delete_old_minutes),
        Duty(every=60.0, work=forget_old_deliveries),
        Duty(every=600.0, work=forget_old_items),
        Duty(every=3600.0, work=forget_old_mails),
    ]


def _briefly(work: Callable[[], object]) -> None:
    """Run this for at most a few seconds, so that a stop is not delayed."""
    thread = threading.Thread(target=work, daemon=True, name="leaving")
    thread.start()
    thread.join(LEAVE_SECONDS)


def _recover_lanes() -> None:
    recovered = recovery.recover_lanes()
    if recovered.reaped or recovered.overdue:
        log.warning("lanes_recovered", reaped=len(recovered.reaped), overdue=len(recovered.overdue))


def _recover_workflows() -> None:
    recovered = workflows.recover()
    if recovered.reaped or recovered.overdue:
        log.warning(
            "workflows_recovered", reaped=len(recovered.reaped), overdue=len(recovered.overdue)
        )


def supervise(stop: threading.Event) -> None:
    """Do every duty when it is due, and fire timers on a second thread, until `stop` is set.

    Webhooks go out on their own threads: an endpoint that hangs delays no duty.
    """
    Sender(stop).start()
    with timers(stop):
        _do_duties(stop)


def _do_duties(stop: threading.Event) -> None:
    """Do the duties. One that fails is retried when it is due, and delays no other."""
    pending = duties()
    while not stop.is_set():
        for duty in pending:
            if time.monotonic() < duty.due:
                continue
            duty.due = time.monotonic() + duty.every
            try:
                duty.work()
            except Exception:
                log.exception("duty_failed")
                connection.close()
        stop.wait(min(settings.SUPERVISOR_SECONDS, 1.0))
    _briefly(remove_unused_containers)


def stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
