"""Runs a task's command once and follows it to its end, whichever process dies meanwhile.

A separate keeper process runs the command and writes a record beside the sandbox; any worker that
finds the record continues to read it. Only if the keeper itself dies without reporting an end is
the outcome unknown, and then the command is not run again. A worker that continues a command reads
its output from the beginning and skips what the workflow's log holds: nothing is lost or logged twice.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Protocol
from uuid import UUID

from core.db import release_connection
from orchestrator.engine.definition import Suspended
from orchestrator.exceptions import CommandStopped, CommandUnknown, NonRetryableError
from orchestrator.models import WorkflowEvent
from orchestrator.tasks import sandbox as sandboxes
from orchestrator.tasks.sandbox import TaskSandbox, end_commands
from sessions_app.harness.crash_points import crash_point
from sessions_app.lanes.signals import StopSignal
from tools_app.exceptions import KeeperLost, SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.base import Sandbox
from tools_app.sandbox.slots import command_slot
from tools_app.sandbox.tasks.control import follow, is_alive, stop_all
from tools_app.sandbox.tasks.record import Ending, Record, make_order

#: How long a stop of Switchyard waits for a command before it is killed.
PATIENCE_SECONDS = 2.0
#: The reason given to a command whose result is no longer wanted.
ABANDONED = "The task was ended."
LOST = (
    "The process that ran the command was lost, so it is unknown how it ended. It is not repeated "
    "automatically: check what it did, then restart from this step or leave it."
)
TAKEN_AWAY = "The sandbox was removed while the command ran, so it is unknown how it ended."
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A command, and what is needed to run it."""

    command: str
    seconds: float
    #: Creates the sandbox; not called if the command was begun before.
    sandbox: Callable[[], Sandbox]
    on_output: Callable[[str], None]
    sign: StopSignal


def name_of(key: str) -> str:
    """Return the name of the record for this key, the same for every attempt at one command."""
    return sha256(key.encode()).hexdigest()[:32]


def run_once(task_sandbox: TaskSandbox, name: str, task: Task) -> Outcome:
    """Return how the command ended: begin it, or follow it from where another worker left it.

    Raise TooManySandboxes, before anything has begun, if the workspace runs as many as it may.
    """
    record = Record(folder=task_sandbox.commands / name)
    try:
        if record.keeper():
            release_connection()
            ending = _follow(record, task)
        else:
            _end_others(task_sandbox, record)
            with command_slot(task_sandbox.workspace_id, seconds=0) as slot:
                sandbox = task.sandbox()
                record.write_order(make_order(sandbox, task.command, seconds=task.seconds))
                release_connection()
                ending = _follow(record, task, slot)
    except SandboxUnavailable as fault:
        raise NonRetryableError(fault.detail) from fault
    except KeeperLost as fault:
        end_commands(task_sandbox)
        raise CommandUnknown(LOST) from fault
    if ending is None:
        # A worker that stops, or has lost the workflow, leaves the command to the next one.
        if task.sign.reason == "stopped":
            stop_all([record], ABANDONED)
        raise Suspended
    crash_point("command_ended")
    # What is charged: the container, or the command itself.
    return {**_outcome(ending), "sandbox": ending.container or f"command:{name}"}


def _end_others(task_sandbox: TaskSandbox, record: Record) -> None:
    """End what an earlier generation of the task left running in the same folder."""
    others = [one for one in task_sandbox.records() if one != record]
    if others:
        end_commands(task_sandbox, others)


def _follow(record: Record, task: Task, slot: int | None = None) -> Ending | None:
    crash_point("command_ordered")
    with _readable_on_stop(task.sign) as stop:
        return follow(record, on_output=task.on_output, stop=stop, slot=slot)


@contextmanager
def _readable_on_stop(sign: StopSignal) -> Iterator[int]:
    """Yield a descriptor that becomes readable as soon as the stop signal is given."""
    fd, lock, is_open = os.eventfd(0), threading.Lock(), True

    def wake() -> None:
        with lock:  # a late signal must not write to a descriptor that was reused
            if is_open:
                os.eventfd_write(fd, 1)

    try:
        with sign.on_stop(wake):
            yield fd
    finally:
        with lock:
            is_open = False
            os.close(fd)


def _outcome(ending: Ending) -> Outcome:
    if ending.fault == SandboxReplaced.code:
        raise CommandUnknown(TAKEN_AWAY)
    if ending.fault:
        raise NonRetryableError(ending.detail)
    if ending.ended_by == "stop" and ending.reason:
        raise CommandStopped(f"The command was ended before it was done. {ending.reason}")
    if ending.ended_by == "stop":
        raise CommandUnknown(TAKEN_AWAY)
    return ending.model_dump(include={"exit_code", "ended_by", "output", "began_at", "ended_at"})


def running() -> list[Record]:
    """Return the commands that have a keeper now."""
    return [record for record in _ordered() if is_alive(record)]


def end_running(reason: str) -> int:
    """End all commands, and keep ordered ones from beginning. Return how many ran."""
    return stop_all(_ordered(), reason, seconds=PATIENCE_SECONDS)


def _ordered() -> list[Record]:
    found = [sandboxes.read(id) for id in sandboxes.workflows_with_sandbox()]
    return [record for sandbox in found if sandbox for record in sandbox.records()]


# ── Reporting output and progress ────────────────────────────────────────────────────────────────

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


@dataclass(kw_only=True)
class ProgressReporter:
    """Passes output on to the workflow's log, up to a limit, and reports the progress found in it."""

    #: The name of the command's record.
    name: str
    step: str
    reported: Reported
    broadcast: Callable[[dict[str, object]], object]
    report: Report
    #: Characters taken, and characters that the log holds.
    _seen: int = 0
    _offset: int = field(init=False)
    #: The beginning of a line whose end has not come yet, and the last progress that was found.
    _line: str = ""
    _found: tuple[float, str] | None = None

    def __post_init__(self) -> None:
        self._offset = self.reported.characters

    def take(self, text: str) -> None:
        """Take the next piece of output, counted from its very beginning."""
        self._parse_progress(text)
        over = max(0, min(self.reported.characters - self._seen, len(text)))
        self._seen += len(text)
        # Progress within skipped output was reported; only the latest may have been lost.
        if self._seen >= self.reported.characters:
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
        last = {"stream": STREAM, "text": text, "offset": self._offset, "command": self.name}
        self.broadcast(last)
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
        percent, message = max(self._found[0], self.reported.percent), self._found[1] or "Running"
        self._found = None
        if (percent, message) != (self.reported.percent, self.reported.message):
            self.reported = replace(self.reported, percent=percent, message=message)
            self.report(message, percent=percent, step=self.step)
