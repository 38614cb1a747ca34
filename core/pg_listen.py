"""Listens for PostgreSQL notifications: one thread and one connection for all subscribers of a process."""

from __future__ import annotations

import atexit
import os
import random
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import psycopg
import structlog
from psycopg.sql import SQL, Identifier

from core.db import connect

log = structlog.get_logger(__name__)

APPLICATION_NAME = "switchyard listener"
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
#: How long a new subscriber waits for the connection before it continues without it.
PATIENCE_SECONDS = 5.0
#: After this long without a notification the connection is probed.
PROBE_SECONDS = 20.0
CLOSE_SECONDS = 2.0


class Subscription:
    """A callback for the notifications of one channel, until it is closed or its block ends."""

    def __init__(
        self,
        listener: Listener,
        channel: str,
        take: Callable[[str], object],
        missed: Callable[[], object],
        after_batch: Callable[[], object],
    ) -> None:
        self.channel = channel
        self.take = take
        self.missed = missed
        self.after_batch = after_batch
        #: Whether a notification was taken since the last call of `after_batch`.
        self.has_taken = False
        #: Set while notifications arrive.
        self.active = threading.Event()
        #: Whether notifications may have been lost since the subscriber last looked.
        self.has_gap = False
        #: How often the connection was lost.
        self.gaps = 0
        self._listener = listener

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening. A notification that is being delivered may still arrive."""
        self._listener.unsubscribe(self)


class Listener:
    """Delivers notifications to subscribers from one connection, which is reopened when lost.

    The thread starts with the first subscription and ends with the last.
    """

    def __init__(self) -> None:
        #: A byte that is sent to the second socket ends the thread's wait for notifications.
        self._wake_up: tuple[socket.socket, socket.socket] | None = None
        self.reset()

    def reset(self) -> None:
        """Start empty, as a fork must: the thread and the connection belong to its parent."""
        self._close_wake_up()
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        #: The channels that the connection listens on.
        self._channels: set[str] = set()
        self._thread: threading.Thread | None = None

    def subscribe(
        self,
        channel: str,
        take: Callable[[str], object],
        *,
        missed: Callable[[], object] = lambda: None,
        after_batch: Callable[[], object] = lambda: None,
    ) -> Subscription:
        """Call `take` with the payload of every notification on the channel, and `after_batch` after
        all that arrived together.

        What is notified after this returns is delivered, so subscribe before you read the state that
        notifications are about. `missed` is called when some may have been lost: after a gap in
        listening, and when this returned without a connection, after PATIENCE_SECONDS.
        Callbacks run on the listener's thread and must not block it.
        """
        subscription = self.register(channel, take, missed, after_batch)
        self.wait(subscription)
        return subscription

    def register(
        self,
        channel: str,
        take: Callable[[str], object],
        missed: Callable[[], object],
        after_batch: Callable[[], object] = lambda: None,
    ) -> Subscription:
        """Subscribe without waiting. The subscriber calls `wait` before it reads any state."""
        subscription = Subscription(self, channel, take, missed, after_batch)
        with self._lock:
            self._subscriptions.append(subscription)
            if channel in self._channels:
                subscription.active.set()
            if self._thread is None:
                self._start()
            self._wake()
        return subscription

    def _start(self) -> None:
        self._wake_up = socket.socketpair()
        for end in self._wake_up:
            end.setblocking(False)
        self._thread = threading.Thread(
            target=self._run, args=self._wake_up[1:], name="pg-listen", daemon=True
        )
        self._thread.start()

    def wait(self, subscription: Subscription) -> None:
        """Wait until the subscription is active, but not longer than PATIENCE_SECONDS."""
        if not subscription.active.wait(PATIENCE_SECONDS):
            with self._lock:
                subscription.has_gap = not subscription.active.is_set()

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                self._wake()

    def close(self) -> None:
        """End all subscriptions, and wait for the connection to be closed."""
        with self._lock:
            self._subscriptions.clear()
            thread = self._thread
            self._wake()
        if thread:
            thread.join(CLOSE_SECONDS)

    def _wake(self) -> None:
        """Let the thread look at the subscriptions. Called under the lock."""
        if self._wake_up:
            with suppress(BlockingIOError):  # full of earlier wake-ups
                self._wake_up[0].send(b"\0")

    def _close_wake_up(self) -> None:
        for end in self._wake_up or ():
            end.close()
        self._wake_up = None

    # ── On the listener's thread ─────────────────────────────────────────────────────────────

    def _run(self, woken: socket.socket) -> None:
        pause = FIRST_PAUSE
        while self._is_needed():
            try:
                with connect(connect_timeout=5, application_name=APPLICATION_NAME) as connection:
                    self._listen(connection, woken)
            except (psycopg.Error, OSError) as error:
                if self._mark_gap():
                    pause = FIRST_PAUSE
                # Only the first failure is a warning; retries would repeat it.
                report = log.warning if pause == FIRST_PAUSE else log.debug
                report("listener_lost", error=str(error).strip(), retry_in=pause)
                self._pause(woken, pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(pause * 2, LONGEST_PAUSE)

    def _is_needed(self) -> bool:
        with self._lock:
            if not self._subscriptions:
                self._thread = None
                self._close_wake_up()
            return bool(self._subscriptions)

    def _listen(self, connection: psycopg.Connection[Any], woken: socket.socket) -> None:
        """Deliver notifications until there are no subscribers left."""
        connection.add_notify_handler(lambda note: self._deliver(note.channel, note.payload))
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while self._follow_subscriptions(connection):
                self._read(connection)
                if not selector.select(PROBE_SECONDS):
                    # A dead connection is as silent as an idle one, so probe it.
                    connection.execute("SELECT 1")
                _drain(woken)

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        """Deliver what has arrived, without waiting."""
        connection.pgconn.consume_input()
        while note := connection.pgconn.notifies():
            self._deliver(note.relname.decode(), note.extra.decode())
        with self._lock:
            taken = [s for s in self._subscriptions if s.has_taken]
        for subscription in taken:
            subscription.has_taken = False
            self._call(subscription.after_batch)

    def _follow_subscriptions(self, connection: psycopg.Connection[Any]) -> bool:
        """Listen on exactly the channels that have subscribers. Return False when there are none."""
        with self._lock:
            wanted = {subscription.channel for subscription in self._subscriptions}
            unwanted, new = self._channels - wanted, wanted - self._channels
            # Before UNLISTEN, so that no new subscriber takes a channel for active that is about to be left.
            self._channels -= unwanted
        for channel in unwanted:
            connection.execute(SQL("UNLISTEN {}").format(Identifier(channel)))
        for channel in new:
            connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
        for subscription in self._activate(new):
            self._call(subscription.missed)
        return bool(wanted)

    def _activate(self, channels: set[str]) -> list[Subscription]:
        """Mark the channels as listened to, and return the subscriptions that had a gap."""
        with self._lock:
            self._channels |= channels
            gaps = []
            for subscription in self._subscriptions:
                if subscription.channel in channels:
                    subscription.active.set()
                    if subscription.has_gap:
                        subscription.has_gap = False
                        gaps.append(subscription)
            return gaps

    def _mark_gap(self) -> bool:
        """Record that the connection is lost. Return whether any channel was listened to."""
        with self._lock:
            was_listening = bool(self._channels)
            self._channels.clear()
            for subscription in self._subscriptions:
                subscription.has_gap |= subscription.active.is_set()
                subscription.gaps += 1
                subscription.active.clear()
            return was_listening

    def _deliver(self, channel: str, payload: str) -> None:
        with self._lock:
            subscriptions = [s for s in self._subscriptions if s.channel == channel]
        for subscription in subscriptions:
            subscription.has_taken = True
            self._call(subscription.take, payload)

    def _call(self, callback: Callable[..., object], *args: str) -> None:
        try:
            callback(*args)
        except Exception:
            log.exception("subscriber_failed")

    def _pause(self, woken: socket.socket, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            selector.select(seconds)
        _drain(woken)


def _drain(woken: socket.socket) -> None:
    with suppress(BlockingIOError):
        while woken.recv(4096):
            pass


listener = Listener()
subscribe = listener.subscribe

os.register_at_fork(after_in_child=listener.reset)
atexit.register(listener.close)
