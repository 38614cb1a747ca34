"""The supervisor: a plain loop in its own process that does what must not depend on a queue."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection

from core.db import for_each
from memory.index import add_awaited_vectors
from orchestrator.canvas.tool_node import close_lost_calls
from orchestrator.engine import recovery as workflows
from orchestrator.tasks import sandbox as tasks
from orchestrator.tasks.billing import payers_of_sandboxes
from orchestrator.terminals import terminals
from orchestrator.triggers import delete_old_firings, fire_due_triggers
from sessions_app.harness.model_call import charge_lost_calls
from sessions_app.lanes import recovery
from sessions_app.ledger import fold_calls as fold_tool_calls
from sessions_app.sandbox_billing import OutOfMoney, charge_running, stop_unpaid
from sessions_app.schedules.schedules import fire_due_schedules
from sessions_app.subagents.spawns import deliver_pending
from tenants.billing.spending import delete_old_minutes
from tenants.billing.usage import fold_calls as fold_model_calls
from tenants.idempotency import forget_old_answers
from tenants.notifications.deliveries import Sender, forget_old_deliveries
from tenants.notifications.inbox import forget_old_items, tell_low_credits
from tenants.notifications.mail import forget_old_mails
from tenants.pulse import beat, delete_old_pulses
from tenants.quotas import fold_storage
from tools_app.mcp.servers import refresh_due
from tools_app.sandbox.container.claims import sessions_with_claims
from tools_app.sandbox.container.lifecycle import remove_unused_containers, sweep

log = structlog.get_logger(__name__)


class BackgroundJob:
    """Does something slow on a background thread, once at a time. A failure ends only this run."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start it and return at once; do nothing while the last run is not over."""
        if not self.is_busy:
            self._thread = threading.Thread(target=self._run, name=self.act.__name__, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the current run is over."""
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.act()
        except Exception:
            log.exception("duty_failed")
        finally:
            connection.close()


def sweep_sandboxes() -> None:
    """Remove containers and task sandboxes that are no longer needed."""
    sessions, unneeded = sessions_with_claims(), tasks.unneeded()
    if sessions:
        sweep(sessions, recovery.living_sessions(sessions) | tasks.needed(sessions))
    tasks.close_all(unneeded)


def bill_sandboxes() -> None:
    """Charge running sandboxes, and stop those that are no longer paid for."""
    if settings.SANDBOX_MINUTE_PRICE > 0:
        for_each(charge_running(payers_of_sandboxes).unpaid.items(), _end_unpaid)


def fold_usage() -> None:
    """Add the model and tool calls that have ended to the daily sums that analytics read."""
    fold_model_calls()
    fold_tool_calls()


def _end_unpaid(unpaid: tuple[UUID, OutOfMoney]) -> None:
    session_id, fault = unpaid
    terminals.close_session_terminals(session_id, fault.detail)
    stop_unpaid(session_id, fault)


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
        Duty(every=5.0, work=terminals.close_lost),
        Duty(every=600.0, work=tasks.forget_erased),
        Duty(every=2.0, work=lambda: beat("supervisor")),
        Duty(every=1.0, work=recovery.ping_workers),
        Duty(every=1.0, work=deliver_pending),
        Duty(every=1.0, work=fire_due_schedules),
        Duty(every=1.0, work=fire_due_triggers),
        Duty(every=600.0, work=delete_old_firings),
        Duty(every=5.0, work=charge_lost_calls),
        Duty(every=10.0, work=BackgroundJob(tell_low_credits).start),
        Duty(every=20.0, work=refresh_due),
        Duty(every=600.0, work=forget_old_answers),
        Duty(every=600.0, work=delete_old_pulses),
        Duty(every=10.0, work=BackgroundJob(sweep_sandboxes).start),
        # Twice a minute, so that no minute is missed; each is charged once.
        Duty(every=30.0, work=BackgroundJob(bill_sandboxes).start),
        Duty(every=3600.0, work=delete_old_minutes),
        Duty(every=5.0, work=BackgroundJob(fold_usage).start),
        Duty(every=2.0, work=BackgroundJob(fold_storage).start),
        Duty(every=2.0, work=BackgroundJob(add_awaited_vectors).start),
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
    _log_recovered("lanes_recovered", recovery.recover_lanes())


def _recover_workflows() -> None:
    _log_recovered("workflows_recovered", workflows.recover())


def _log_recovered(event: str, found: recovery.RecoveryReport | workflows.Recovered) -> None:
    if found.reaped or found.overdue:
        log.warning(event, reaped=len(found.reaped), overdue=len(found.overdue))


def supervise(stop: threading.Event) -> None:
    """Do every duty when it is due, and fire timers on a second thread, until `stop` is set.

    Webhooks go out on their own threads: an endpoint that hangs delays no duty.
    """
    Sender(stop).start()
    with workflows.timers(stop):
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
