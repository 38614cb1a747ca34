"""Waits for the end of a workflow without asking the database again and again."""

from __future__ import annotations

from functools import partial
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async

from orchestrator.engine.ringing import group_name
from orchestrator.models import Workflow
from tenants.group_ear import watched
from tenants.off_loop import let_go

#: A ring may be lost; this is how long a waiter then stays in the dark.
LOOK_SECONDS = 2.0


def wait_for_workflow(workflow_id: UUID, seconds: float) -> Workflow:
    """The workflow when it is over, or as it is when the time is up."""
    return async_to_sync(_await)(workflow_id, seconds)


async def _await(workflow_id: UUID, seconds: float) -> Workflow:
    found = await _read(workflow_id)
    if found.is_over or seconds <= 0:
        return found
    return await watched(
        group_name(workflow_id),
        partial(_read, workflow_id),
        is_over=lambda found: found.is_over,
        seconds=seconds,
        every=LOOK_SECONDS,
    )


@sync_to_async
def _read(workflow_id: UUID) -> Workflow:
    found = Workflow.objects.get(pk=workflow_id)
    let_go()
    return found
