"""Reports what a task's command prints, and how far it is, while it runs.

A worker that continues a command after a crash reads its output from the beginning and skips as
much as is in the workflow's log: nothing is lost or logged twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from orchestrator.models import WorkflowEvent

#: Characters of output that go to the log; the step keeps more.
MAX_CHARACTERS = 200_000
STREAM = "command"
TRUNCATED = "\n[… more output is not shown while it runs …]\n"
#: A line of output that reports progress: `::progress 40 Compiling`.
PROGRESS = re.compile(r"^::progress +(\d{1,3}(?:\.\d+)?)(?: +(.*))?$")
MAX_LINE = 1_000
MAX_MESSAGE = 200
#: The share of the whole task that its command takes, in percent.
FIRST, LAST = 20.0, 90.0


class Report(Protocol):
    def __call__(self, message: str, *, percent: float, step: str) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What the log already holds of a command."""

    characters: int = 0
    percent: float = FIRST
    message: str = ""


def already_reported(workflow_id: UUID, name: str) -> Reported:
    """Return what the workflow's log already holds of this command."""
    log = WorkflowEvent.objects.filter(workflow_id=workflow_id).order_by("-seq")
    last = log.filter(type="output", payload__message__command=name).first()
    progress = log.filter(type="progress").first()
    return Reported(
        characters=_end_of(last.payload["message"]) if last else 0,
        percent=max(FIRST, (progress.payload["percent"] or 0.0) if progress else 0.0),
        message=progress.payload["message"] if progress else "",
    )


def _end_of(message: dict[str, object]) -> int:
    return int(str(message["offset"])) + len(str(message["text"]))


class ProgressReporter:
    """Passes output on to the workflow's log, up to a limit."""

    def __init__(
        self,
        name: str,
        reported: Reported,
        *,
        step: str,
        broadcast: Callable[[dict[str, object]], object],
        report: Report,
    ) -> None:
        self._name, self._step = name, step
        self._broadcast, self._report = broadcast, report
        self._reported = reported
        self._seen = 0
        self._offset = reported.characters
        self._line = ""
        self._found: tuple[float, str] | None = None

    def take(self, text: str) -> None:
        """Take the next piece of output, counted from its very beginning."""
        self._parse_progress(text)
        over = max(0, min(self._reported.characters - self._seen, len(text)))
        self._seen += len(text)
        # Progress within skipped output was reported; only the latest may have been lost.
        if self._seen >= self._reported.characters:
            self._report_progress()
        self._show(text[over:])

    def _show(self, text: str) -> None:
        room = MAX_CHARACTERS - self._offset
        if room <= 0 or not text:
            return
        self._append(text[:room])
        if len(text) >= room:
            self._append(TRUNCATED)

    def _append(self, text: str) -> None:
        last = {"stream": STREAM, "text": text, "offset": self._offset, "command": self._name}
        self._broadcast(last)
        self._offset += len(text)

    def _parse_progress(self, text: str) -> None:
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[:MAX_LINE]
        for line in lines:
            if found := PROGRESS.match(line.rstrip("\r")):
                share = min(float(found[1]), 100.0) / 100
                percent = round(FIRST + share * (LAST - FIRST), 1)
                self._found = percent, (found[2] or "")[:MAX_MESSAGE]

    def _report_progress(self) -> None:
        """Report progress, never less than before and nothing twice."""
        if self._found is None:
            return
        percent, message = max(self._found[0], self._reported.percent), self._found[1] or "Running"
        self._found = None
        if (percent, message) != (self._reported.percent, self._reported.message):
            self._reported = Reported(
                characters=self._reported.characters, percent=percent, message=message
            )
            self._report(message, percent=percent, step=self._step)
