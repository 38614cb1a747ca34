"""Tells viewers that a workflow's log grew. Workers ring beside the work, in bundles."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from django.db import Error

from config import live
from sessions_app.statements import rows
from tenants.off_loop import let_go

if TYPE_CHECKING:
    from orchestrator.engine.store import Claimed

log = structlog.get_logger(__name__)

WHOSE = "SELECT id, workspace_id FROM workflows WHERE id = ANY(%s)"


def group_name(workflow_id: UUID) -> str:
    return f"workflow.{workflow_id}"


def list_group(workspace_id: UUID) -> str:
    """Whom the rings of all workflows of a workspace reach."""
    return f"workflows.{workspace_id}"


def ring(*workflow_ids: UUID) -> None:
    """Say that these logs grew; viewers read them. Inside a transaction, with its commit."""
    ring_all(workflow_ids)


def ring_all(workflow_ids: Iterable[UUID]) -> None:
    """The same for many, wherever they belong."""
    if ids := list(workflow_ids):
        ring_known(dict(rows(WHOSE, [ids])))


def ring_known(whose: Mapping[UUID, UUID]) -> None:
    """Ring workflows, each with its workspace: those who watch one, and those who watch the list."""
    rings = [(group_name(one), {"type": "log.grew"}) for one in whose]
    rings += [(list_group(yard), {"type": "list.changed"}) for yard in sorted(set(whose.values()))]
    live.send_many(rings)


class Ringer:
    """Rings from a thread of its own: at once when it is idle, else all that came meanwhile."""

    def __init__(self) -> None:
        self._grown: dict[UUID, UUID] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        threading.Thread(target=self._work, name="workflow ringer", daemon=True).start()

    def ring(self, held: Claimed) -> None:
        with self._lock:
            self._grown[held.id] = held.workspace_id
        self._news.set()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            with self._lock:
                grown, self._grown = self._grown, {}
            try:
                ring_known(grown)
            except Error as error:
                # Viewers look for themselves now and then.
                log.warning("ring_failed", error=str(error).strip())
            finally:
                let_go()
