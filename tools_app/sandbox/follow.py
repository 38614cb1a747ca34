"""Follows a running command: passes its output on, and sees when it is over or has to be."""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tools_app.sandbox.base import EndedBy
from tools_app.sandbox.output import Output

#: How often the command is looked after while it says nothing.
TICK_SECONDS = 0.1
#: How often its use of the machine is measured.
WATCH_SECONDS = 0.25
#: A command that floods its output is slowed to some 13 MB a second.
FLOOD_SECONDS = 0.005
CHUNK = 65_536


class Watching(Protocol):
    def exceeded(self) -> EndedBy | None:
        """Which limit the sandbox as a whole has passed, if any."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the output comes from."""

    fd: int
    #: Waits for bytes; none of them means the end.
    receive: Callable[[], bytes]
    output: Output

    def take(self) -> bool:
        """Read one piece of output; False at its end."""
        data = self.receive()
        self.output.take(data)
        if self.output.flooding:
            time.sleep(FLOOD_SECONDS)
        return bool(data)

    def drain(self) -> None:
        """Read what the command wrote last, as long as it keeps coming."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.fd, selectors.EVENT_READ)
            while selector.select(1) and self.take():
                pass


def follow(
    source: Source, handle: int, watch: Watching, until: float, stopped: threading.Event
) -> EndedBy:
    """Pass output on until the process behind the handle ends, or something ends it; say which."""
    look_at = time.monotonic() + WATCH_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(source.fd, selectors.EVENT_READ)
        selector.register(handle, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(TICK_SECONDS):
                if key.fileobj == handle:
                    return "itself"
                if not source.take():
                    selector.unregister(source.fd)
            now = time.monotonic()
            if stopped.is_set():
                return "stop"
            if now >= until:
                return "time"
            if now >= look_at:
                look_at = now + WATCH_SECONDS
                if limit := watch.exceeded():
                    return limit
