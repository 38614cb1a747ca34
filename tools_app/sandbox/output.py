"""Follows a running command: passes its output on, and notices when it ends or must be ended."""

from __future__ import annotations

import codecs
import re
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from core.validation import storable
from tools_app.sandbox.base import EndedBy

#: Characters kept of the head of the output, and as many of its tail.
KEPT = 500_000
#: Characters published live. People cannot follow more than that.
SHOWN = 1_000_000

#: ANSI escape sequences: colours and cursor movements.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Output:
    """Collects output as it comes. Between its head and its tail, characters are only counted."""

    def __init__(self, on_output: Callable[[str], None] | None = None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._on_output = on_output
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.size = 0

    @property
    def flooding(self) -> bool:
        """Whether more came than is kept, so that the reader may slow the command down."""
        return self.size > 2 * KEPT

    def take(self, data: bytes, *, final: bool = False) -> None:
        if text := storable(self._decoder.decode(data, final)):
            self._keep(text)
            if self._on_output and self.size <= SHOWN:
                self._on_output(text)

    def text(self) -> str:
        """Return the output, with a note where characters are missing. Call it once, at the end."""
        self.take(b"", final=True)
        head, tail = "".join(self._head), "".join(self._tail)[-KEPT:]
        lost = self.size - len(head) - len(tail)
        note = f"\n\n[… {lost:,} characters were not kept …]\n\n" if lost else ""
        return _ANSI.sub("", head + note + tail)

    def _keep(self, text: str) -> None:
        self.size += len(text)
        room = KEPT - self._head_size
        if room > 0:
            self._head.append(text[:room])
            self._head_size += len(text[:room])
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= KEPT:
            self._tail_size -= len(self._tail.popleft())


#: How often the command's end is checked while it writes nothing.
TICK_SECONDS = 0.1
#: How often its resource usage is measured.
WATCH_SECONDS = 0.25
#: Slows a command that floods its output to about 13 MB per second.
FLOOD_SECONDS = 0.005
CHUNK = 65_536


class LimitWatch(Protocol):
    def exceeded(self) -> EndedBy | None:
        """Return the limit that the sandbox as a whole has exceeded, if any."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the output of a command comes from."""

    fd: int
    #: Blocks until there are bytes; returns none at the end.
    receive: Callable[[], bytes]
    output: Output

    def take(self) -> bool:
        """Read one piece of output; return False at the end."""
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
    source: Source, handle: int, watch: LimitWatch, until: float, stopped: threading.Event
) -> EndedBy:
    """Pass output on until the process behind the handle ends or must be ended; return the reason."""
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
