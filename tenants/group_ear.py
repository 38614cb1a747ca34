"""Hears what is sent to one group of the channel layer, without losing what comes while nobody waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from channels.layers import get_channel_layer

T = TypeVar("T")
Hear: TypeAlias = Callable[[float], Awaitable[dict[str, Any] | None]]
#: These come in quick succession and change nothing that is worth a look.
PIECES = {"delta", "output"}


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


async def watched(
    group: str,
    look: Callable[[], Awaitable[T]],
    *,
    is_over: Callable[[T], bool],
    seconds: float,
    every: float,
) -> T:
    """What a look finds when it is over, or when the time is up. A lost ring costs `every` seconds."""
    end = time.monotonic() + seconds
    # Joined before the first look, as it may end in between.
    async with listening(group) as hear:
        while True:
            found = await look()
            left = end - time.monotonic()
            if is_over(found) or left <= 0:
                return found
            await _ring(hear, min(left, every))


async def _ring(hear: Hear, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        message = await hear(left)
        if message is None or message["type"] not in PIECES:
            return
