"""What django-q2's workers call for workflows: a door into this process's host."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from uuid import UUID

import structlog
from django.db import Error

from config.faults import Fault
from orchestrator.engine.ringing import ring
from orchestrator.engine.settling import settle_child, settle_run
from orchestrator.host import WorkflowHost
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)


@cache
def host() -> WorkflowHost:
    """The workflows of this process, made in the worker itself: threads do not survive a fork."""
    return WorkflowHost()


def wake(_: str) -> None:
    """Something is queued. What is served first is decided by the claim, not by who rang."""
    host().wake()


def settle(by: Callable[[UUID], UUID | None], id: str) -> None:
    """Something that a step waits for is over. A wake-up that fails is repeated by the supervisor."""
    try:
        workflow_id = by(UUID(id))
        if workflow_id:
            ring(workflow_id)
    except (Fault, Error, ValueError):
        log.warning("settling_failed", id=id, exc_info=True)
    finally:
        let_go()


KINDS: dict[str, Callable[[str], object]] = {
    "workflow": wake,
    "workflow-run": lambda id: settle(settle_run, id),
    "workflow-child": lambda id: settle(settle_child, id),
}
