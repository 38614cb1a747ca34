"""Waits for the end of a run without asking the database again and again."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from config.faults import NotFound
from sessions_app.models import Run
from sessions_app.stream import group_name

OVER = {Run.Status.COMPLETED, Run.Status.FAILED, Run.Status.CANCELLED, Run.Status.DEAD}
#: A ring may be lost; this is how long a waiter then stays in the dark.
LOOK_SECONDS = 10.0


async def await_run(run_id: UUID, seconds: float) -> Run:
    """The run when it is over, or as it is when the time is up."""
    end = time.monotonic() + seconds
    run = await _read(run_id)
    if run.status in OVER or seconds <= 0:
        return run
    layer = get_channel_layer()
    channel = await layer.new_channel("wait")
    group = group_name(run.session_id)
    await layer.group_add(group, channel)
    try:
        # Read again: it may have ended before the group was joined.
        run = await _read(run_id)
        while run.status not in OVER and (left := end - time.monotonic()) > 0:
            await _ring(layer, channel, min(left, LOOK_SECONDS))
            run = await _read(run_id)
        return run
    finally:
        await layer.group_discard(group, channel)


async def _ring(layer: object, channel: str, seconds: float) -> None:
    """Until the log grows, skipping the deltas of an answer."""
    try:
        async with asyncio.timeout(seconds):
            while (await layer.receive(channel))["type"] == "delta":  # type: ignore[attr-defined]
                pass
    except TimeoutError:
        pass


async def _read(run_id: UUID) -> Run:
    run = await Run.objects.filter(pk=run_id).afirst()
    if run is None:
        raise NotFound
    return run


def wait_for_run(run_id: UUID, seconds: float) -> Run:
    """The same, for synchronous code."""
    return async_to_sync(await_run)(run_id, seconds)
