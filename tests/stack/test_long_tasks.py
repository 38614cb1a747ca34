"""Tests that commands of long tasks and their progress survive every restart.

Time is compressed: a minute of the command takes a second. `make soak` runs the same for ten
real minutes (`SOAK_SECONDS`) and prints what it observes.
"""

from __future__ import annotations

import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.stack.client import Client
from tests.stack.running import Running, wait_for
from tests.stack.test_tasks import begin, wait_for_end
from tests.tools_app.conftest import needs_bwrap
from tests.tools_app.sandbox.conftest import IMAGE, skip_or_fail
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox.container.engine import connect

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
MINUTES = 60
#: How long a minute of the command takes; the last one waits until every kill is done.
MINUTE = SOAK_SECONDS / MINUTES or 1.0
#: The pause between two kills, so that each hits a working stack.
PAUSE = SOAK_SECONDS / 15
COMMAND = f"""
echo run >> count
for minute in $(seq {MINUTES}); do
  echo "minute $minute"
  echo "::progress $((minute * 100 / {MINUTES})) Minute $minute"
  sleep {MINUTE}
done
while [ ! -e go ]; do sleep 0.1; done
echo done
"""
WHOLE = (
    "".join(
        f"minute {minute}\n::progress {minute * 100 // MINUTES} Minute {minute}\n"
        for minute in range(1, MINUTES + 1)
    )
    + "done\n"
)
PROGRAMS = ("workers", "supervisor", "web", "terminals")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900 + 2 * SOAK_SECONDS), needs_bwrap]

Make = Callable[..., Running]


def lack_of_containers() -> str:
    try:
        image = connect().request("GET", f"/images/{IMAGE}/json")
    except SandboxUnavailable as fault:
        return fault.detail
    return "" if image.is_fine else f"{IMAGE} is not made: run `make containers`"


@pytest.fixture
def kinds() -> list[str]:
    """Return both kinds of sandbox; the soak covers containers only."""
    why = lack_of_containers()
    if why and (SOAK_SECONDS or os.environ.get("SWITCHYARD_REQUIRE_SANDBOX")):
        skip_or_fail(why)
    if why:
        warnings.warn(f"Only local: {why}", stacklevel=1)
        return ["local"]
    return ["container"] if SOAK_SECONDS else ["container", "local"]


class LongTask:
    """Starts one task on a running stack and reads its events."""

    def __init__(self, stack: Running, kind: str, command: str = COMMAND) -> None:
        self.stack = stack
        self.client = Client(stack)
        limits = {"wall_seconds": 3_600}
        self.client.call("environments/", {"name": kind, "kind": kind, "limits": limits})
        self.id = begin(self.client, command=command, environment=kind, timeout=3_600)

    @property
    def files(self) -> Path:
        (found,) = self.stack.data_dir.glob(f"sessions/*/{self.id}/workspace")
        return found

    def events(self, type: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := self.client.rows(
            f"workflows/{self.id}/events/?limit=200&after={found[-1]['seq'] if found else 0}"
        ):
            found += page
        return [one["payload"] for one in found if one["type"] == type]

    def said(self) -> str:
        return "".join(one["message"]["text"] for one in self.events("output"))

    def minutes(self) -> int:
        return len(re.findall(r"^minute ", self.said(), re.MULTILINE))

    def progress(self) -> list[float]:
        return [one["percent"] for one in self.events("progress")]

    def wait_for_more(self) -> None:
        """Wait until the command makes progress or has reached its last minute."""
        before = self.minutes()
        wait_for(lambda: self.minutes() > before or before == MINUTES, "more of the command")


class Trial:
    """Kills the programs of a stack while its tasks run."""

    def __init__(self, stack: Running, tasks: list[LongTask]) -> None:
        self.stack, self.tasks = stack, tasks
        self.began = time.monotonic()

    def note(self, what: str) -> None:
        seen = " and ".join(str(task.minutes()) for task in self.tasks)
        told = f"{time.monotonic() - self.began:6.0f} s  {what}, at minute {seen} of {MINUTES}"
        os.write(2, f"{told}\n".encode())

    def wait_for_more(self) -> None:
        for task in self.tasks:
            task.wait_for_more()
        time.sleep(PAUSE)

    def kill_program(self, name: str) -> None:
        self.note(f"SIGKILL of {name}")
        old = self.stack.pids()[name]
        for process in [*self.stack.group(old), psutil.Process(old)]:
            if process.is_running():
                process.kill()
        self.stack.wait_until_replaced(name, old)

    def stop_all(self, number: int) -> None:
        """End the whole stack by a signal and start it again."""
        self.note(f"{signal.Signals(number).name} of the whole")
        self.stack.kill("up", number)
        self.stack.wait_until_gone(but_keepers=True)
        assert len(self.stack.keepers()) == len(self.tasks)
        self.stack.start()

    def kills(self) -> Iterator[Callable[[], None]]:
        """Yield the kill of each program and of the whole stack; in a soak, repeatedly."""
        rounds: list[Callable[[], None]] = [
            *(partial(self.kill_program, name) for name in PROGRAMS),
            partial(self.stop_all, signal.SIGKILL),
            partial(self.stop_all, signal.SIGTERM),
        ]
        if not SOAK_SECONDS:
            yield from rounds
            return
        for one in cycle(rounds):
            if all(task.minutes() >= MINUTES for task in self.tasks):
                return
            yield one


def test_long_tasks_survive_the_death_of_every_process(make_stack: Make, kinds: list[str]) -> None:
    stack = make_stack()
    stack.start()
    tasks = [LongTask(stack, kind) for kind in kinds]
    trial = Trial(stack, tasks)
    for kill in trial.kills():
        trial.wait_for_more()
        kill()
    trial.wait_for_more()
    for task in tasks:
        task.files.joinpath("go").touch()
    attempts = [check_end(task) for task in tasks]
    wait_for(lambda: not stack.keepers(), "the end of the keepers")
    trial.note(f"the end, after {attempts} attempts at following one command")


def check_end(task: LongTask) -> int:
    """Check that the command ran once and was reported once; return how often it was followed."""
    ended = wait_for_end(task.client, task.id)
    assert ended["status"] == "complete", ended["error"]
    assert ended["result"]["output"] == WHOLE
    assert task.said() == WHOLE
    (made,) = [one for one in ended["result"]["artifacts"] if one["path"] == "count"]
    assert made["size"] == len("run\n")
    told = task.progress()
    assert told == sorted(told)
    assert told[-1] == 100
    run = next(step for step in ended["steps"] if step["name"] == "run command")
    assert len(run["attempts"]) > 1
    return len(run["attempts"])


def test_ctrl_c_ends_the_commands_and_the_tasks_report_it(
    make_stack: Make, kinds: list[str]
) -> None:
    stack = make_stack()
    stack.start()
    command = "echo run >> count; echo 'minute 1'; sleep 3000"
    tasks = [LongTask(stack, kind, command) for kind in kinds]
    for task in tasks:
        wait_for(task.minutes, "the command's first words")

    assert stack.stop(signal.SIGINT) == 0
    stack.wait_until_gone()
    stack.start()
    for task in tasks:
        ended = wait_for_end(task.client, task.id)
        assert ended["error"]["code"] == "command_stopped"
        assert "Switchyard was stopped." in ended["error"]["message"]
        assert task.files.joinpath("count").read_text() == "run\n"
        task.client.call(f"workflows/{task.id}/restart/", {"from_step": "run command"})
    wait_for(lambda: len(stack.keepers()) == len(tasks), "the commands that a person runs again")
    for task in tasks:
        task.client.call(f"workflows/{task.id}/terminate/", {})
    wait_for(lambda: not stack.keepers(), "the end of the commands")
