"""Tells those who watch a task what its command says and how far it is, while it runs.

What was told is in the workflow's log. Whoever goes on with a command after a crash reads its
output from the beginning and passes over as much as was told: nothing is lost or told twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from orchestrator.models import WorkflowEvent

#: Characters that go to the log; the step keeps more, and a flood helps nobody who watches.
MOST = 200_000
STREAM = "command"
NOT_SHOWN = "\n[… what follows is not shown while it runs …]\n"
#: A line of output that says how far the command is: `::progress 40 Compiling`.
PROGRESS = re.compile(r"^::progress +(\d{1,3}(?:\.\d+)?)(?: +(.*))?$")
LONGEST_LINE = 1_000
LONGEST_MESSAGE = 200
#: The part of the whole task in which its command runs, in percent.
FIRST, LAST = 20.0, 90.0


class Report(Protocol):
    def __call__(self, message: str, *, percent: float, step: str) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the log holds of a command already."""

    characters: int = 0
    percent: float = FIRST
    message: str = ""


def told_of(workflow_id: UUID, name: str) -> Told:
    log = WorkflowEvent.objects.filter(workflow_id=workflow_id).order_by("-seq")
    said = log.filter(type="output", payload__message__command=name).first()
    progress = log.filter(type="progress").first()
    return Told(
        characters=_end_of(said.payload["message"]) if said else 0,
        percent=max(FIRST, (progress.payload["percent"] or 0.0) if progress else 0.0),
        message=progress.payload["message"] if progress else "",
    )


def _end_of(message: dict[str, object]) -> int:
    return int(str(message["offset"])) + len(str(message["text"]))


class Voice:
    """Passes output on to the workflow's log, up to a bound. Pieces that come at once are one line."""

    def __init__(
        self,
        name: str,
        told: Told,
        *,
        step: str,
        say: Callable[[dict[str, object]], object],
        report: Report,
    ) -> None:
        self._name, self._step = name, step
        self._say, self._report = say, report
        self._told = told
        self._passed = 0
        self._offset = told.characters
        self._line = ""
        self._found: tuple[float, str] | None = None

    def take(self, text: str) -> None:
        """The next piece of the output, from its very beginning."""
        self._look_for_progress(text)
        over = max(0, min(self._told.characters - self._passed, len(text)))
        self._passed += len(text)
        # Progress of what is passed over was told; only the newest of it may have been lost.
        if self._passed >= self._told.characters:
            self._tell_progress()
        self._show(text[over:])

    def _show(self, text: str) -> None:
        room = MOST - self._offset
        if room <= 0 or not text:
            return
        self._tell(text[:room])
        if len(text) >= room:
            self._tell(NOT_SHOWN)

    def _tell(self, text: str) -> None:
        said = {"stream": STREAM, "text": text, "offset": self._offset, "command": self._name}
        self._say(said)
        self._offset += len(text)

    def _look_for_progress(self, text: str) -> None:
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[:LONGEST_LINE]
        for line in lines:
            if found := PROGRESS.match(line.rstrip("\r")):
                share = min(float(found[1]), 100.0) / 100
                percent = round(FIRST + share * (LAST - FIRST), 1)
                self._found = percent, (found[2] or "")[:LONGEST_MESSAGE]

    def _tell_progress(self) -> None:
        """Never less than before, and nothing twice."""
        if self._found is None:
            return
        percent, message = max(self._found[0], self._told.percent), self._found[1] or "Running"
        self._found = None
        if (percent, message) != (self._told.percent, self._told.message):
            self._told = Told(characters=self._told.characters, percent=percent, message=message)
            self._report(message, percent=percent, step=self._step)
