"""Hears what is sent to one group of the channel layer, without losing what comes while nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from channels.layers import get_channel_layer

Hear: TypeAlias = Callable[[float], Awaitable[dict[str, Any] | None]]


@asynccontextmanager
async def listening(group: str) -> AsyncIterator[Hear]:
    """Hear what is sent to a group while the block lasts: the next message, or None in good time."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    coming = asyncio.ensure_future(layer.receive(channel))

    async def hear(seconds: float) -> dict[str, Any] | None:
        nonlocal coming
        # A message must not be lost because nobody had the patience for it.
        await asyncio.wait({coming}, timeout=seconds)
        if not coming.done():
            return None
        message, coming = coming.result(), asyncio.ensure_future(layer.receive(channel))
        return message

    try:
        yield hear
    finally:
        coming.cancel()
        await layer.group_discard(group, channel)
