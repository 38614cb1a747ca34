"""A Channels layer over PostgreSQL's LISTEN and NOTIFY. It notifies and stores nothing.

The process's one connection (`core/pg_listen.py`) listens for any number of viewers, and messages
are dispatched in memory. SQL can send too: `pg_notify('switchyard_live', '<group> {"type": "log.grew"}')`. A NOTIFY
inside a transaction takes effect when it commits. Delivery is at most once. A receiver that may
have missed messages gets one of these:

- `{"type": "layer.reconnected"}` after a gap in listening,
- `{"type": "layer.overflowed"}` instead of the messages that a full queue dropped.

PostgreSQL delivers equal messages of one transaction once.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import orjson
import structlog
from asgiref.sync import sync_to_async
from channels.layers import BaseChannelLayer, get_channel_layer
from django.db import connection, transaction

from core import pg_listen
from core.db import prepared_rows, release_connection
from core.exceptions import MessageTooLong

log = structlog.get_logger(__name__)

Message: TypeAlias = dict[str, Any]

RECONNECTED: Message = {"type": "layer.reconnected"}
OVERFLOWED: Message = {"type": "layer.overflowed"}
#: The receiver of a full queue that was not read for this long is considered gone.
ABANDONED_SECONDS = 60.0

CHANNEL = "switchyard_live"
LARGEST = 7_900  #: Bytes of a payload; PostgreSQL's limit is 7,999.
MOST_PARTS = 1_000
MOST_UNFINISHED = 64  #: Incomplete messages kept; the oldest is dropped first.
CONTINUATION = 0b1000_0000  # the two leading bits of a byte inside a UTF-8 character


def encode(address: str, message: Mapping[str, object]) -> list[str]:
    """Encode a message as one payload, or as several if it is too long for one."""
    body = orjson.dumps(message)
    room = LARGEST - len(address) - 1
    if len(body) <= room:
        return [f"{address} {body.decode()}"]
    pieces = split(body, room - len("#01234567/1000/1000 "))
    if len(pieces) > MOST_PARTS:
        raise MessageTooLong
    name = secrets.token_hex(4)
    return [
        f"{address} #{name}/{number}/{len(pieces)} {piece.decode()}"
        for number, piece in enumerate(pieces)
    ]


def split(body: bytes, size: int) -> list[bytes]:
    """Split into pieces of at most this many bytes, never inside a character."""
    pieces = []
    start = 0
    while start < len(body):
        end = min(start + size, len(body))
        while end < len(body) and body[end] & 0b1100_0000 == CONTINUATION:
            end -= 1
        pieces.append(body[start:end])
        start = end
    return pieces


def address_of(payload: str) -> str:
    return payload.partition(" ")[0]


class Decoder:
    """Decodes payloads and keeps the parts of a message until it is complete."""

    def __init__(self) -> None:
        self._unfinished: OrderedDict[str, dict[int, str]] = OrderedDict()

    def decode(self, payload: str) -> bytes | None:
        """Return the JSON of a message, or None while parts of it are missing."""
        body = payload.partition(" ")[2]
        if not body.startswith("#"):
            return body.encode()
        head, _, piece = body.partition(" ")
        name, number, count = head.split("/")
        pieces = self._unfinished.setdefault(name, {})
        pieces[int(number)] = piece
        if len(pieces) == int(count):
            del self._unfinished[name]
            return "".join(pieces[place] for place in sorted(pieces)).encode()
        if len(self._unfinished) > MOST_UNFINISHED:
            self._unfinished.popitem(last=False)
        return None


class ChannelQueue:
    """The messages that wait for one receiver. An overflow replaces them all by one message."""

    def __init__(self, capacity: int) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue(capacity)
        self.emptied_at = time.monotonic()

    async def take(self) -> Message:
        self.emptied_at = time.monotonic()
        message = await self.queue.get()
        self.emptied_at = time.monotonic()
        return message

    def put(self, message: Message) -> bool:
        """Enqueue the message. Return False if the receiver seems to be gone."""
        if not self.queue.full():
            self.queue.put_nowait(message)
            return True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(dict(OVERFLOWED))
        return time.monotonic() - self.emptied_at < ABANDONED_SECONDS


class Dispatcher:
    """The queues and groups of one event loop, fed by the listener of the process."""

    def __init__(self, capacity: int, ended: Callable[[], object]) -> None:
        self.capacity = capacity
        self.queues: dict[str, ChannelQueue] = {}
        self.groups: dict[str, set[str]] = {}
        self._ended = ended
        self._decoder = Decoder()
        self._listening: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Start listening if needed, and wait for the connection as long as a subscriber does."""
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(), name="live listener")
        await self._ready.wait()

    async def close(self) -> None:
        if self._listening:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        """Stay subscribed until the task is cancelled, at the latest with its loop."""
        listener, loop = pg_listen.listener, asyncio.get_running_loop()

        def take(payload: str) -> None:
            # On the listener's thread. Most payloads have no receiver here.
            if self._has_receiver(address_of(payload)):
                loop.call_soon_threadsafe(self.deliver, payload)

        def missed() -> None:
            loop.call_soon_threadsafe(self.report_gap)

        try:
            with listener.register(CHANNEL, take, missed) as subscription:
                await asyncio.to_thread(listener.wait, subscription)
                self._ready.set()
                await asyncio.Event().wait()
        finally:
            self._ready.set()  # a viewer that cannot be notified still polls
            self._ended()

    def _has_receiver(self, address: str) -> bool:
        return address in self.groups or address.removeprefix("!") in self.queues

    def queue_of(self, channel: str) -> ChannelQueue:
        return self.queues.setdefault(channel, ChannelQueue(self.capacity))

    def deliver(self, payload: str) -> None:
        """Pass a payload to the channels of its address."""
        address = address_of(payload)
        channels = self.groups.get(address) or (
            {address.removeprefix("!")} & self.queues.keys() if "!" in address else set()
        )
        if not channels:
            return
        try:
            if body := self._decoder.decode(payload):
                for channel in list(channels):
                    self.put(channel, orjson.loads(body))
        except ValueError:
            log.warning("live_payload_unreadable", address=address)

    def report_gap(self) -> None:
        for channel in {channel for group in self.groups.values() for channel in group}:
            self.put(channel, dict(RECONNECTED))

    def put(self, channel: str, message: Message) -> None:
        if not self.queue_of(channel).put(message):
            self.forget(channel)

    def join(self, group: str, channel: str) -> None:
        self.queue_of(channel)
        self.groups.setdefault(group, set()).add(channel)

    def leave(self, group: str, channel: str) -> None:
        members = self.groups.get(group, set())
        members.discard(channel)
        if not members:
            self.groups.pop(group, None)

    def forget(self, channel: str) -> None:
        self.queues.pop(channel, None)
        for group in [name for name, members in self.groups.items() if channel in members]:
            self.leave(group, channel)


class PostgresChannelLayer(BaseChannelLayer):
    """The layer: groups, and channels that belong to the process that created them."""

    extensions = ["groups", "flush"]

    def __init__(self, capacity: int = 1000) -> None:
        super().__init__(capacity=capacity)
        # async_to_sync creates separate loops, and queues belong to one loop.
        self._dispatchers: WeakKeyDictionary[asyncio.AbstractEventLoop, Dispatcher] = (
            WeakKeyDictionary()
        )

    def publish_many(self, messages: Sequence[tuple[str, Message]]) -> None:
        """Send messages in order, with one statement on Django's connection.

        Inside a transaction they are sent when it commits.
        """
        for group, _ in messages:
            self.require_valid_group_name(group)
        notify([payload for group, message in messages for payload in encode(group, message)])

    async def group_send(self, group: str, message: Message) -> None:
        """Send from asynchronous code at once, whether or not the caller is in a transaction."""
        self.require_valid_group_name(group)
        await in_thread(encode(group, message))

    async def group_add(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._dispatcher.join(group, channel)
        await self._dispatcher.ready()

    async def group_discard(self, group: str, channel: str) -> None:
        self.require_valid_group_name(group)
        self.require_valid_channel_name(channel)
        self._dispatcher.leave(group, channel)

    async def new_channel(self, prefix: str = "specific") -> str:
        channel = f"{prefix}.{secrets.token_hex(8)}!{secrets.token_hex(4)}"
        self._dispatcher.queue_of(channel)
        return channel

    async def send(self, channel: str, message: Message) -> None:
        """Send to one channel. A name without `!` reaches every process that receives on it."""
        self.require_valid_channel_name(channel)
        if "!" in channel and channel in self._dispatcher.queues:
            self._dispatcher.put(channel, orjson.loads(orjson.dumps(message)))
            return
        address = channel
        if "!" not in channel:
            address = f"!{channel}"
            self._dispatcher.queue_of(channel)
            await self._dispatcher.ready()
        await in_thread(encode(address, message))

    async def receive(self, channel: str) -> Message:
        self.require_valid_channel_name(channel)
        queue = self._dispatcher.queue_of(channel)
        try:
            return await queue.take()
        except asyncio.CancelledError:
            # Channels does not close channels; it cancels the task that receives.
            self._dispatcher.forget(channel)
            raise

    async def flush(self) -> None:
        self._dispatcher.queues.clear()
        self._dispatcher.groups.clear()

    async def close(self) -> None:
        await self._dispatcher.close()
        self._forget_loop()

    @property
    def _dispatcher(self) -> Dispatcher:
        loop = asyncio.get_running_loop()
        dispatcher = self._dispatchers.get(loop)
        if dispatcher is None:
            dispatcher = self._dispatchers[loop] = Dispatcher(self.capacity, self._forget_loop)
        return dispatcher

    def _forget_loop(self) -> None:
        """Drop the queues of the running loop, which they would keep in memory after its end."""
        self._dispatchers.pop(asyncio.get_running_loop(), None)


NOTIFY = "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload"


def notify(payloads: list[str]) -> None:
    prepared_rows(NOTIFY, [CHANNEL, payloads])


async def in_thread(payloads: list[str]) -> None:
    """Notify from a thread of the loop's pool, with a separate connection."""

    def notify_and_close() -> None:
        try:
            notify(payloads)
        finally:
            connection.close()

    await sync_to_async(notify_and_close, thread_sensitive=False)()


#: Messages that wait while the layer is unavailable. The oldest are dropped.
MOST_WAITING = 10_000
SEND_SECONDS = 5.0

Queued = tuple[Any, str, Message]


class SyncSender:
    """Sends for synchronous code over a layer other than PostgreSQL's, on a background thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._queue: asyncio.Queue[Queued] = asyncio.Queue(MOST_WAITING)
        threading.Thread(target=self._work, name="sync-sender", daemon=True).start()

    def take(self, layer: Any, messages: Sequence[tuple[str, Message]]) -> None:
        self._loop.call_soon_threadsafe(self._accept, layer, messages)

    def _accept(self, layer: Any, messages: Sequence[tuple[str, Message]]) -> None:
        for group, message in messages:
            if self._queue.full():
                self._queue.get_nowait()
            self._queue.put_nowait((layer, group, message))

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._deliver())

    async def _deliver(self) -> None:
        while True:
            layer, group, message = await self._queue.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await layer.group_send(group, message)
            except Exception as error:  # noqa: BLE001 (a layer may raise whatever its client does)
                log.warning("live_message_lost", group=group, error=repr(error))


@cache
def sync_sender() -> SyncSender:
    """Return the sender of this process. A fork gets a new one."""
    return SyncSender()


os.register_at_fork(after_in_child=sync_sender.cache_clear)


def send(group: str, message: Message) -> None:
    """Send to everyone in the group, after the current transaction (if any) commits."""
    send_many([(group, message)])


def send_many(messages: Sequence[tuple[str, Message]]) -> None:
    """Send messages to several groups at once, after the current transaction (if any) commits."""
    layer = get_channel_layer()
    if isinstance(layer, PostgresChannelLayer):
        layer.publish_many(messages)
        return
    transaction.on_commit(partial(sync_sender().take, layer, messages))


#: How long a message that is not urgent waits for others to be sent with it.
COLLECT_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message to a group that a notifier is to send."""

    group: str
    message: Message
    is_urgent: bool


class Notifier:
    """Sends on a thread of the process, with one statement for all that came up meanwhile."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Notice | threading.Event] = SimpleQueue()
        threading.Thread(target=self._work, name="notifier", daemon=True).start()

    def put(self, notice: Notice) -> None:
        self._queue.put(notice)

    def flush(self) -> None:
        """Wait until all that was put is sent, but not for long."""
        sent = threading.Event()
        self._queue.put(sent)
        sent.wait(SEND_SECONDS)

    def _work(self) -> None:
        while True:
            self._send(self._take())

    def _take(self) -> list[Notice | threading.Event]:
        """Wait for something to send, and return it with everything else that waits.

        If nothing of it is urgent, more is collected for a moment.
        """
        taken = [self._queue.get()]
        end = time.monotonic() + COLLECT_SECONDS
        with suppress(Empty):
            while isinstance(last := taken[-1], Notice) and not last.is_urgent:
                taken.append(self._queue.get(timeout=max(0.0, end - time.monotonic())))
            while True:
                taken.append(self._queue.get_nowait())
        return taken

    def _send(self, taken: list[Notice | threading.Event]) -> None:
        try:
            if notices := [item for item in taken if isinstance(item, Notice)]:
                send_many([(notice.group, notice.message) for notice in notices])
        except Exception as error:  # noqa: BLE001 (whatever fails, later messages must be sent)
            log.warning("live_message_lost", error=repr(error))
            connection.close()
        finally:
            if self._queue.empty():
                release_connection()
        for item in taken:
            if isinstance(item, threading.Event):
                item.set()


@cache
def notifier() -> Notifier:
    """Return the notifier of this process, which ends what it began before the process does."""
    made = Notifier()
    atexit.register(made.flush)
    return made


os.register_at_fork(after_in_child=notifier.cache_clear)


def send_soon(group: str, message: Message, *, is_urgent: bool = True) -> None:
    """Send to everyone in the group after the commit, without waiting for it.

    A process that is killed in this moment does not send: the receivers must look from time to time.
    """
    notice = Notice(group=group, message=message, is_urgent=is_urgent)
    transaction.on_commit(lambda: notifier().put(notice))


T = TypeVar("T")
Hear: TypeAlias = Callable[[float], Awaitable[dict[str, Any] | None]]
#: Types of frequent messages that change no state worth checking.
PIECES = {"delta", "output"}


@asynccontextmanager
async def subscription(group: str) -> AsyncIterator[Hear]:
    """Subscribe to a group and yield a function that waits for its next message.

    The function returns None when no message arrived in the given number of seconds.
    """
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    receiving = asyncio.ensure_future(layer.receive(channel))

    async def hear(seconds: float) -> dict[str, Any] | None:
        nonlocal receiving
        # Cancelling the receive on a timeout would lose the message.
        await asyncio.wait({receiving}, timeout=seconds)
        if not receiving.done():
            return None
        message, receiving = receiving.result(), asyncio.ensure_future(layer.receive(channel))
        return message

    try:
        yield hear
    finally:
        await layer.group_discard(group, channel)
        # A layer forgets a channel only if the receive is cancelled while it waits for a message,
        # so not before it has begun and not after a last message.
        while not receiving.cancelled():
            if receiving.done():
                receiving = asyncio.ensure_future(layer.receive(channel))
            await asyncio.sleep(0)
            receiving.cancel()
            await asyncio.wait({receiving})


async def watched(
    group: str,
    look: Callable[[], Awaitable[T]],
    *,
    is_over: Callable[[T], bool],
    seconds: float,
    every: float,
) -> T:
    """Call `look` at every message to the group and return its result when `is_over`, or at the end.

    A lost message delays the next look by at most `every` seconds.
    """
    end = time.monotonic() + seconds
    # Subscribe before the first look, so that no change in between is missed.
    async with subscription(group) as hear:
        while True:
            state = await look()
            left = end - time.monotonic()
            if is_over(state) or left <= 0:
                return state
            await _wait_for_change(hear, min(left, every))


async def _wait_for_change(hear: Hear, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        message = await hear(left)
        if message is None or message["type"] not in PIECES:
            return
