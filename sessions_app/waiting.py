"""Waits for the end of a run without asking the database again and again."""

from __future__ import annotations

import time
from functools import partial
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async

from config.faults import NotFound
from sessions_app.models import Run
from sessions_app.stream import group_name
from tenants.group_ear import watched
from tenants.off_loop import let_go

OVER = {Run.Status.COMPLETED, Run.Status.FAILED, Run.Status.CANCELLED, Run.Status.DEAD}
#: A ring may be lost; this is how long a waiter then stays in the dark.
LOOK_SECONDS = 10.0


async def await_run(run_id: UUID, seconds: float) -> Run:
    """The run when it is over, or as it is when the time is up."""
    end = time.monotonic() + seconds
    run = await _read(run_id)
    if run.status in OVER or seconds <= 0:
        return run
    return await watched(
        group_name(run.session_id),
        partial(_read, run_id),
        is_over=lambda found: found.status in OVER,
        seconds=end - time.monotonic(),
        every=LOOK_SECONDS,
    )


@sync_to_async
def _read(run_id: UUID) -> Run:
    run = Run.objects.filter(pk=run_id).first()
    let_go()
    if run is None:
        raise NotFound
    return run


def wait_for_run(run_id: UUID, seconds: float) -> Run:
    """The same, for synchronous code."""
    return async_to_sync(await_run)(run_id, seconds)
