"""Hands what one listener hears to those in the same event loop who want it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeAlias

import orjson
import structlog

from config.pg_listener import Listener
from config.pg_payload import Decoder, address_of

log = structlog.get_logger(__name__)

Message: TypeAlias = dict[str, Any]

RECONNECTED: Message = {"type": "layer.reconnected"}
OVERFLOWED: Message = {"type": "layer.overflowed"}
#: A full mailbox that nobody emptied for this long belongs to a receiver that is gone.
ABANDONED_SECONDS = 60.0


class Mailbox:
    """What waits for one receiver. A full one forgets everything and says so."""

    def __init__(self, capacity: int) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue(capacity)
        self.emptied_at = time.monotonic()

    async def take(self) -> Message:
        self.emptied_at = time.monotonic()
        message = await self.queue.get()
        self.emptied_at = time.monotonic()
        return message

    def put(self, message: Message) -> bool:
        """Keep the message. False when the receiver seems to be gone."""
        if not self.queue.full():
            self.queue.put_nowait(message)
            return True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(dict(OVERFLOWED))
        return time.monotonic() - self.emptied_at < ABANDONED_SECONDS


class Mailroom:
    """The mailboxes and groups of one event loop, behind its one listener."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.mailboxes: dict[str, Mailbox] = {}
        self.groups: dict[str, set[str]] = {}
        self.listener = Listener(take=self.deliver, missed=self.tell_all)
        self._decoder = Decoder()

    def mailbox(self, channel: str) -> Mailbox:
        return self.mailboxes.setdefault(channel, Mailbox(self.capacity))

    def deliver(self, payload: str) -> None:
        """Hand a payload to whoever listens here; most payloads concern nobody."""
        address = address_of(payload)
        channels = self.groups.get(address) or (
            {address.removeprefix("!")} & self.mailboxes.keys() if "!" in address else set()
        )
        if not channels:
            return
        try:
            if body := self._decoder.decode(payload):
                for channel in list(channels):
                    self.put(channel, orjson.loads(body))
        except ValueError:
            log.warning("live_payload_unreadable", address=address)

    def tell_all(self) -> None:
        for channel in {channel for group in self.groups.values() for channel in group}:
            self.put(channel, dict(RECONNECTED))

    def put(self, channel: str, message: Message) -> None:
        if not self.mailbox(channel).put(message):
            self.forget(channel)

    def join(self, group: str, channel: str) -> None:
        self.mailbox(channel)
        self.groups.setdefault(group, set()).add(channel)

    def leave(self, group: str, channel: str) -> None:
        members = self.groups.get(group, set())
        members.discard(channel)
        if not members:
            self.groups.pop(group, None)

    def forget(self, channel: str) -> None:
        self.mailboxes.pop(channel, None)
        for group in [name for name, members in self.groups.items() if channel in members]:
            self.leave(group, channel)
