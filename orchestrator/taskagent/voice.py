"""Tells those who watch a task what its command says, while it says it."""

from __future__ import annotations

from collections.abc import Callable

#: Characters that go to the log; the step keeps more, and a flood helps nobody who watches.
MOST = 200_000
STREAM = "command"


class Voice:
    """Passes output on to the workflow's log, up to a bound. Pieces that come at once are one line."""

    def __init__(self, say: Callable[[dict[str, object]], object]) -> None:
        self._say = say
        self._offset = 0

    def take(self, text: str) -> None:
        room = MOST - self._offset
        if room <= 0:
            return
        self._tell(text[:room])
        if len(text) >= room:
            self._tell("\n[… what follows is not shown while it runs …]\n")

    def _tell(self, text: str) -> None:
        self._say({"stream": STREAM, "text": text, "offset": self._offset})
        self._offset += len(text)
