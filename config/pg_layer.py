"""A Channels layer over PostgreSQL's LISTEN and NOTIFY: rings, not a store.

One connection per process listens, whatever the number of viewers; what arrives is handed on in
memory. SQL may ring too: `pg_notify('switchyard_live', '<group> {"type": "log.grew"}')`, and a
NOTIFY inside a transaction takes effect with it. Delivery is at most once. A receiver that could
have missed something is told so by a message of its own:

- `{"type": "layer.reconnected"}` after a gap in listening,
- `{"type": "layer.overflowed"}` in place of what a full mailbox had to drop.

Equal messages of one transaction arrive once: PostgreSQL folds them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import orjson
from asgiref.sync import sync_to_async
from channels.layers import BaseChannelLayer
from django.db import connection

from config.mailroom import Mailroom, Message
from config.pg_payload import CHANNEL, encode


class PostgresChannelLayer(BaseChannelLayer):
    """Groups, and channels that belong to the process that made them."""

    extensions = ["groups", "flush"]

    def __init__(self, capacity: int = 1000) -> None:
        super().__init__(capacity=capacity)
        # async_to_sync makes loops of its own, and no connection can be shared between loops.
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailroom] = WeakKeyDictionary()

    def publish_many(self, messages: Sequence[tuple[str, Message]]) -> None:
        """Send from synchronous code, on Django's connection: with its transaction, if it has one.

        Several messages go in order, in one statement.
        """
        for group, _ in messages:
            self.require_valid_group_name(group)
        notify([payload for group, message in messages for payload in encode(group, message)])

    async def group_send(self, group: str, message: Message) -> None:
        """Send from asynchronous code, at once: a transaction of the caller has no say in it."""
        self.require_valid_group_name(group)
        await in_thread(encode(group, message))

    async def group_add(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._room.join(group, channel)
        await self._room.listener.ready()

    async def group_discard(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._room.leave(group, channel)

    async def new_channel(self, prefix: str = "specific") -> str:
        channel = f"{prefix}.{secrets.token_hex(8)}!{secrets.token_hex(4)}"
        self._room.mailbox(channel)
        return channel

    async def send(self, channel: str, message: Message) -> None:
        """Send to one channel. A general one (without `!`) is heard in every process that has it."""
        self.require_valid_channel_name(channel)
        if "!" in channel and channel in self._room.mailboxes:
            self._room.put(channel, orjson.loads(orjson.dumps(message)))
            return
        address = channel
        if "!" not in channel:
            address = f"!{channel}"
            self._room.mailbox(channel)
            await self._room.listener.ready()
        await in_thread(encode(address, message))

    async def receive(self, channel: str) -> Message:
        self.require_valid_channel_name(channel)
        mailbox = self._room.mailbox(channel)
        try:
            return await mailbox.take()
        except asyncio.CancelledError:
            # Channels has no call for the end of a channel; it cancels the one who waits.
            self._room.forget(channel)
            raise

    async def flush(self) -> None:
        self._room.mailboxes.clear()
        self._room.groups.clear()

    async def close(self) -> None:
        await self._room.listener.close()
        self._rooms.pop(asyncio.get_running_loop(), None)

    @property
    def _room(self) -> Mailroom:
        loop = asyncio.get_running_loop()
        room = self._rooms.get(loop)
        if room is None:
            room = self._rooms[loop] = Mailroom(self.capacity)
        return room


def notify(payloads: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload", [CHANNEL, payloads]
        )


async def in_thread(payloads: list[str]) -> None:
    """Notify from a thread of the loop's pool, with a connection of its own."""

    def notify_and_let_go() -> None:
        try:
            notify(payloads)
        finally:
            connection.close()

    await sync_to_async(notify_and_let_go, thread_sensitive=False)()
