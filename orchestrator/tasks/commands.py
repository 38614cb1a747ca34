"""Runs a task's command once and follows it to its end, whichever process dies meanwhile.

A separate keeper process runs the command and writes a record beside the sandbox; any worker that
finds the record continues to read it. Only if the keeper itself dies without reporting an end is
the outcome unknown, and then the command is not run again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from core.db import release_connection
from orchestrator.engine.definition import Suspended
from orchestrator.exceptions import CommandStopped, CommandUnknown, NonRetryableError
from orchestrator.tasks import sandbox as sandboxes
from orchestrator.tasks.sandbox import TaskSandbox, end_commands
from sessions_app.harness.crash_points import crash_point
from sessions_app.lanes.signals import StopSignal
from tools_app.exceptions import KeeperLost, SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.base import Sandbox
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
    """Return how the command ended: begin it, or follow it from where another worker left it."""
    record = Record(folder=task_sandbox.commands / name)
    try:
        if not record.keeper():
            _end_others(task_sandbox, record)
            sandbox = task.sandbox()
            record.write_order(make_order(sandbox, task.command, seconds=task.seconds))
        release_connection()
        ending = _follow(record, task)
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


def _follow(record: Record, task: Task) -> Ending | None:
    crash_point("command_ordered")
    with _readable_on_stop(task.sign) as stop:
        return follow(record, on_output=task.on_output, stop=stop)


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
