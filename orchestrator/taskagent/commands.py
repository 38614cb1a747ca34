"""Runs a task's command once, whoever dies meanwhile, and follows it to its end.

A keeper of its own runs it and writes into a record beside the workspace. Whoever finds the record
goes on reading it. Only where the keeper itself is gone and left no end, nobody saw how it ended:
it is not run again, and that is said.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from config.faults import (
    CommandStopped,
    CommandUnknown,
    KeeperLost,
    NonRetryableError,
    SandboxReplaced,
    SandboxUnavailable,
)
from orchestrator.engine.control import Parked
from orchestrator.taskagent.place import TaskPlace, end_commands
from sessions_app.points import reached
from sessions_app.stopping import StopSign
from tenants.off_loop import let_go
from tools_app.sandbox import Sandbox
from tools_app.sandbox.kept.control import end_all
from tools_app.sandbox.kept.following import follow
from tools_app.sandbox.kept.order import order_of
from tools_app.sandbox.kept.record import Ending, Record

#: Given to those whose command ends because nobody waits for it.
UNWANTED = "Its task was ended."
LOST = (
    "The process that kept the command was lost, and nobody saw how it ended. It is not run again "
    "by itself: look at what it did, then start from this step again or leave it."
)
TAKEN_AWAY = "The sandbox was taken away while the command ran, so nobody saw how it ended."
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A command, and what belongs to running it."""

    command: str
    seconds: float
    #: Makes the sandbox; not called where the command was begun before.
    sandbox: Callable[[], Sandbox]
    on_output: Callable[[str], None]
    sign: StopSign


def name_of(key: str) -> str:
    """The name of the record for this key, which every attempt at one command has in common."""
    return sha256(key.encode()).hexdigest()[:32]


def run_once(place: TaskPlace, name: str, task: Task) -> Outcome:
    """How the command ended: begun now, or followed from where somebody else left it."""
    record = Record(folder=place.commands / name)
    try:
        if not record.keeper():
            _end_others(place, record)
            sandbox = task.sandbox()
            record.give_order(order_of(sandbox, task.command, seconds=task.seconds))
        let_go()
        ending = _follow(record, task)
    except SandboxUnavailable as fault:
        raise NonRetryableError(fault.detail) from fault
    except KeeperLost as fault:
        end_commands(place)
        raise CommandUnknown(LOST) from fault
    if ending is None:
        # A worker that stops, or has lost the workflow, leaves the command to the next one.
        if task.sign.reason == "stopped":
            end_all([record], UNWANTED)
        raise Parked
    reached("command_ended")
    # What is paid for: the container, or the command itself.
    return {**_outcome(ending), "sandbox": ending.container or f"command:{name}"}


def _end_others(place: TaskPlace, record: Record) -> None:
    """What an earlier life of the task left running would work in the same folder."""
    others = [one for one in place.records() if one != record]
    if others:
        end_commands(place, others)


def _follow(record: Record, task: Task) -> Ending | None:
    reached("command_ordered")
    with _waking(task.sign) as stop:
        return follow(record, on_output=task.on_output, stop=stop)


@contextmanager
def _waking(sign: StopSign) -> Iterator[int]:
    """A descriptor that is readable as soon as the sign is given."""
    fd, lock, is_open = os.eventfd(0), threading.Lock(), True

    def wake() -> None:
        with lock:  # whoever gives the sign late must not write to another's descriptor
            if is_open:
                os.eventfd_write(fd, 1)

    try:
        with sign.calls(wake):
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
