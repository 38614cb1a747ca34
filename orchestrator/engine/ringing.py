"""Tells viewers that a workflow's log grew. Workers ring beside the work, in bundles."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from uuid import UUID

import structlog
from django.db import Error

from config import live
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)


def group_name(workflow_id: UUID) -> str:
    return f"workflow.{workflow_id}"


def ring(*workflow_ids: UUID) -> None:
    """Say that these logs grew; viewers read them. Inside a transaction, with its commit."""
    ring_all(workflow_ids)


def ring_all(workflow_ids: Iterable[UUID]) -> None:
    live.send_many([(group_name(one), {"type": "log.grew"}) for one in workflow_ids])


class Ringer:
    """Rings from a thread of its own: at once when it is idle, else all that came meanwhile."""

    def __init__(self) -> None:
        self._grown: set[UUID] = set()
        self._lock = threading.Lock()
        self._news = threading.Event()
        threading.Thread(target=self._work, name="workflow ringer", daemon=True).start()

    def ring(self, workflow_id: UUID) -> None:
        with self._lock:
            self._grown.add(workflow_id)
        self._news.set()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            with self._lock:
                grown, self._grown = self._grown, set()
            try:
                ring_all(grown)
            except Error as error:
                # Viewers look for themselves now and then.
                log.warning("ring_failed", error=str(error).strip())
            finally:
                let_go()
