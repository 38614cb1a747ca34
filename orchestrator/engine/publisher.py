"""Notifies viewers that a workflow's log grew; they read the log themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from django.db import Error

from core import channel_layer
from core.db import release_connection
from sessions_app.log.sql import rows

if TYPE_CHECKING:
    from orchestrator.engine.store import WorkflowClaim

log = structlog.get_logger(__name__)

WORKSPACES = "SELECT id, workspace_id FROM workflows WHERE id = ANY(%s)"


def workflow_group(workflow_id: UUID) -> str:
    """Return the channel group of one workflow's viewers."""
    return f"workflow.{workflow_id}"


def list_group(workspace_id: UUID) -> str:
    """Return the channel group of those who watch a workspace's list of workflows."""
    return f"workflows.{workspace_id}"


def notify_viewers(workflow_ids: Iterable[UUID]) -> None:
    """Notify the viewers of these workflows. Inside a transaction, with its commit."""
    if ids := list(workflow_ids):
        notify(dict(rows(WORKSPACES, [ids])))


def notify(workspaces: Mapping[UUID, UUID]) -> None:
    """Notify the viewers of workflows, given with their workspaces, and of those workspaces' lists."""
    messages = [(workflow_group(id), {"type": "log.grew"}) for id in workspaces]
    messages += [
        (list_group(id), {"type": "list.changed"}) for id in sorted(set(workspaces.values()))
    ]
    channel_layer.send_many(messages)


class Publisher:
    """Notifies viewers from a background thread: at once when idle, else in batches."""

    def __init__(self) -> None:
        self._grown: dict[UUID, UUID] = {}
        self._lock = threading.Lock()
        self._news = threading.Event()
        threading.Thread(target=self._work, name="workflow publisher", daemon=True).start()

    def publish(self, claim: WorkflowClaim) -> None:
        with self._lock:
            self._grown[claim.id] = claim.workspace_id
        self._news.set()

    def _work(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            with self._lock:
                grown, self._grown = self._grown, {}
            try:
                notify(grown)
            except Error as error:
                # Viewers also look at the log now and then.
                log.warning("notify_failed", error=str(error).strip())
            finally:
                release_connection()
