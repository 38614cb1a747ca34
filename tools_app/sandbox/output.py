"""Collects a command's output: live for whoever watches, bounded for memory and ledger."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable

from tools_app.clip import storable

#: Characters kept of the beginning, and as many of the end.
KEPT = 500_000
#: Characters shown live; a flood helps nobody who watches.
SHOWN = 1_000_000

#: Colours and cursor movements, as terminals take them.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Output:
    """Takes bytes as they come. What lies between head and tail is counted and let go."""

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
        """More came than is kept: the reader may slow down, and the command with it."""
        return self.size > 2 * KEPT

    def take(self, data: bytes, *, final: bool = False) -> None:
        if text := storable(self._decoder.decode(data, final)):
            self._keep(text)
            if self._on_output and self.size <= SHOWN:
                self._on_output(text)

    def text(self) -> str:
        """Everything, or head and tail with a note between them. Call it once, at the end."""
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
