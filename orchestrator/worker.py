"""What a worker process does with the wake-ups that the broker hands to it.

A payload is a session's id, `KIND:ID` for a workflow, or a ping of the supervisor, which proves the
whole path from NOTIFY to a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from uuid import UUID

import structlog
from django.db import Error

from core.db import release_connection
from core.exceptions import Fault
from orchestrator.engine.publisher import notify_viewers
from orchestrator.engine.runner import WorkflowHost
from orchestrator.engine.waits import settle_child, settle_run
from sessions_app.lanes.host import LaneHost
from tenants.pulse import beat

log = structlog.get_logger(__name__)


@cache
def lanes() -> LaneHost:
    """Return this process's lanes, created in the worker itself: threads do not survive a fork."""
    return LaneHost()


@cache
def workflows() -> WorkflowHost:
    """Return this process's workflows."""
    return WorkflowHost()


def wake_many(payloads: list[str]) -> None:
    """Serve the wake-ups that arrived together. django-q2 calls this by its dotted path."""
    if "ping" in payloads:
        beat("worker")
        release_connection()
    session_ids = []
    for payload in payloads:
        match payload.rpartition(":"):
            case "workflow", _, _:
                # The claim decides which workflow is served first, not the wake-up.
                workflows().wake()
            case "workflow-run", _, run_id:
                settle(settle_run, run_id)
            case "workflow-child", _, child_id:
                settle(settle_child, child_id)
            case "", _, session_id if session_id != "ping":
                session_ids.append(UUID(session_id))
    if session_ids:
        lanes().wake_many(session_ids)


def settle(settle_by: Callable[[UUID], UUID | None], id: str) -> None:
    """Settle the step that waits for this run or child. The supervisor repeats one that fails."""
    try:
        if workflow_id := settle_by(UUID(id)):
            notify_viewers([workflow_id])
    except (Fault, Error, ValueError):
        log.warning("settling_failed", id=id, exc_info=True)
    finally:
        release_connection()
