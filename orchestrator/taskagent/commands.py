"""Runs a task's command at most once, whoever dies meanwhile.

A journal beside the workspace says that the command was begun and how it ended. Whoever finds that
it was begun and not how it ended does not run it again: the outcome is unknown, and said to be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from config.faults import CommandUnknown, NonRetryableError, SandboxReplaced, SandboxUnavailable
from orchestrator.engine.control import Parked
from orchestrator.taskagent.place import TaskPlace, end_commands
from sessions_app.points import reached
from sessions_app.stopping import StopSign
from tools_app.clip import clip_for_model
from tools_app.sandbox import Sandbox

#: Characters of the output that the step keeps.
KEPT = 200_000
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What is known of one command: two files that outlive every process."""

    folder: Path
    name: str

    @classmethod
    def of(cls, place: TaskPlace, key: str) -> Journal:
        folder = place.store / "commands"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(folder=folder, name=sha256(key.encode()).hexdigest()[:32])

    def begin(self) -> bool:
        """Say that the command begins. False: it was begun before."""
        try:
            fd = os.open(self._begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        os.fsync(fd)
        os.close(fd)
        return True

    def withdraw(self) -> None:
        """It did not begin after all."""
        self._begun.unlink(missing_ok=True)

    def end(self, outcome: Outcome) -> None:
        beside = self._ended.with_suffix(".part")
        with beside.open("wb") as file:
            file.write(orjson.dumps(outcome))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._ended)

    def outcome(self) -> Outcome | None:
        try:
            return orjson.loads(self._ended.read_bytes())
        except FileNotFoundError:
            return None

    @property
    def _begun(self) -> Path:
        return self.folder / f"{self.name}.begun"

    @property
    def _ended(self) -> Path:
        return self.folder / f"{self.name}.ended"


@dataclass(frozen=True, kw_only=True)
class Order:
    """A command, and what belongs to running it."""

    #: The same for every attempt at this command and for no other.
    key: str
    command: str
    seconds: float
    on_output: Callable[[str], None]
    sign: StopSign


def run_once(place: TaskPlace, sandbox: Sandbox, order: Order) -> Outcome:
    """How the command ended: now, or when somebody else ran it."""
    journal = Journal.of(place, order.key)
    if told := journal.outcome():
        return told
    if not journal.begin():
        # Whoever began it is gone, or is not to go on.
        end_commands(place)
        raise CommandUnknown(
            "The worker was lost while the command ran, and nobody saw how it ended. It is not run "
            "again by itself: look at what it did, then start from this step again or leave it."
        )
    reached("command_begun")
    outcome = _execute(sandbox, order, journal)
    journal.end(outcome)
    reached("command_ended")
    return outcome


def _execute(sandbox: Sandbox, order: Order, journal: Journal) -> Outcome:
    try:
        result = sandbox.execute(
            order.command,
            seconds=order.seconds,
            on_output=order.on_output,
            stopped=order.sign.event,
        )
    except SandboxUnavailable as fault:
        journal.withdraw()
        raise NonRetryableError(fault.detail) from fault
    except SandboxReplaced as fault:
        raise CommandUnknown(
            "The sandbox was taken away while the command ran, so nobody saw how it ended."
        ) from fault
    if order.sign.event.is_set() and result.ended_by == "stop":
        raise Parked  # the worker goes; whoever comes next finds it begun and not ended
    return {
        "exit_code": result.exit_code,
        "ended_by": result.ended_by,
        "output": clip_for_model(result.output, KEPT),
    }
