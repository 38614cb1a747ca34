"""Waits for the end of a workflow without asking the database again and again."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer

from orchestrator.engine.ringing import group_name
from orchestrator.models import Workflow
from tenants.off_loop import let_go

#: A ring may be lost; this is how long a waiter then stays in the dark.
LOOK_SECONDS = 2.0


def wait_for_workflow(workflow_id: UUID, seconds: float) -> Workflow:
    """The workflow when it is over, or as it is when the time is up."""
    return async_to_sync(_await)(workflow_id, seconds)


async def _await(workflow_id: UUID, seconds: float) -> Workflow:
    end = time.monotonic() + seconds
    found = await _read(workflow_id)
    if found.is_over or seconds <= 0:
        return found
    layer = get_channel_layer()
    channel = await layer.new_channel("wait")
    group = group_name(workflow_id)
    try:
        while True:
            # Before the look, as it may end in between.
            await layer.group_add(group, channel)
            found = await _read(workflow_id)
            left = end - time.monotonic()
            if found.is_over or left <= 0:
                return found
            await _ring(layer, channel, min(left, LOOK_SECONDS))
    finally:
        await layer.group_discard(group, channel)
        with suppress(TimeoutError):
            # A layer forgets a channel when its receiver is cancelled.
            async with asyncio.timeout(0):
                while True:
                    await layer.receive(channel)


async def _ring(layer: Any, channel: str, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await layer.receive(channel)


@sync_to_async
def _read(workflow_id: UUID) -> Workflow:
    found = Workflow.objects.get(pk=workflow_id)
    let_go()
    return found
