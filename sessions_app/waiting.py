"""Waits for the end of a run without asking the database again and again."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer

from config.faults import NotFound
from sessions_app.models import Run
from sessions_app.stream import group_name
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
    layer = get_channel_layer()
    channel = await layer.new_channel("wait")
    group = group_name(run.session_id)
    try:
        while True:
            # Each time anew, as a layer forgets whoever stopped receiving; and before the look,
            # as the run may end in between.
            await layer.group_add(group, channel)
            run = await _read(run_id)
            left = end - time.monotonic()
            if run.status in OVER or left <= 0:
                return run
            await _ring(layer, channel, min(left, LOOK_SECONDS))
    finally:
        await layer.group_discard(group, channel)
        await _forget(layer, channel)


async def _ring(layer: Any, channel: str, seconds: float) -> None:
    """Until the log grows, skipping the deltas of an answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await layer.receive(channel))["type"] == "delta":
                pass


async def _forget(layer: Any, channel: str) -> None:
    """Channels has no call for the end of a channel; a receiver that is cancelled means it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            while True:
                await layer.receive(channel)


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
