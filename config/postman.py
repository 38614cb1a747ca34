"""Carries messages of synchronous code to an asynchronous layer, on one loop for the whole process.

A layer keeps its connections per event loop, and a loop for each message would connect each time.
Messages arrive in the order in which they were given. What cannot be sent is dropped: a message
only says that there is something to read, and viewers look by themselves now and then.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import structlog

from config.mailroom import Message

log = structlog.get_logger(__name__)

#: Messages that wait while the layer is away; older ones are worth nothing to anybody.
MOST_WAITING = 10_000
SEND_SECONDS = 5.0

Letter = tuple[Any, str, Message]


class Postman:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._letters: asyncio.Queue[Letter] = asyncio.Queue(MOST_WAITING)
        threading.Thread(target=self._work, name="postman", daemon=True).start()

    def take(self, layer: Any, messages: Sequence[tuple[str, Message]]) -> None:
        self._loop.call_soon_threadsafe(self._accept, layer, messages)

    def _accept(self, layer: Any, messages: Sequence[tuple[str, Message]]) -> None:
        for group, message in messages:
            if self._letters.full():
                self._letters.get_nowait()
            self._letters.put_nowait((layer, group, message))

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._deliver())

    async def _deliver(self) -> None:
        while True:
            layer, group, message = await self._letters.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await layer.group_send(group, message)
            except Exception as error:  # noqa: BLE001 (a layer may raise whatever its client does)
                log.warning("live_message_lost", group=group, error=repr(error))


@cache
def postman() -> Postman:
    """The postman of this process."""
    return Postman()


os.register_at_fork(after_in_child=postman.cache_clear)
