"""What the supervisor does on threads of their own: an engine or a mail server that hangs holds up no lane."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection

from orchestrator.taskagent import sweep as tasks
from orchestrator.taskagent.minutes import payers_of_sandboxes
from orchestrator.taskagent.place import TaskPlace
from orchestrator.terminals.records import close_of_session
from sessions_app import recovery
from sessions_app.row_by_row import for_each
from sessions_app.sandbox_minutes import charge_running
from sessions_app.sandbox_purses import OutOfMoney, stop_unpaid
from tenants.low_credits import tell_low_credits
from tools_app.sandbox.container.claims import claiming_sessions
from tools_app.sandbox.container.sweep import sweep

log = structlog.get_logger(__name__)


class Aside:
    """One duty, done once at a time. What fails there is done again when it is due."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, act: Callable[[], object]) -> None:
        """Return at once, also when the last time is not over yet."""
        if not self.is_busy:
            name = type(self).__name__.lower()
            self._thread = threading.Thread(target=_do, args=[act], name=name, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Until what was begun is over."""
        if self._thread:
            self._thread.join()


def _do(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        log.exception("duty_failed")
    finally:
        connection.close()


class Sweeper(Aside):
    """Takes away containers and the places of tasks that nobody needs any more."""

    def work(self) -> None:
        if self.is_busy:
            return
        sessions, unneeded = claiming_sessions(), tasks.unneeded()
        if sessions or unneeded:
            living = recovery.living_sessions(sessions) | tasks.needed(sessions)
            self.begin(partial(_tidy, sessions, living, unneeded))


def _tidy(sessions: list[UUID], living: set[UUID], unneeded: list[TaskPlace]) -> None:
    if sessions:
        sweep(sessions, living)
    tasks.close_all(unneeded)


class Biller(Aside):
    """Charges running sandboxes, and ends those that nobody can pay any more."""

    def work(self) -> None:
        if settings.SANDBOX_MINUTE_PRICE > 0:
            self.begin(_charge)


def _charge() -> None:
    for_each(charge_running(payers_of_sandboxes).unpaid.items(), _end_unpaid)


def _end_unpaid(found: tuple[UUID, OutOfMoney]) -> None:
    session_id, fault = found
    close_of_session(session_id, fault.detail)
    stop_unpaid(session_id, fault)


class Teller(Aside):
    """Tells workspaces that few credits are left, also by mail."""

    def work(self) -> None:
        self.begin(tell_low_credits)
