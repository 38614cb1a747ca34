"""A task that runs for an hour keeps its command and its progress through every restart.

Time is compressed: a minute of the command takes a second. `make soak` runs the same for ten
real minutes (`SOAK_SECONDS`) and prints what it saw.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest

from config.faults import SandboxUnavailable
from tests.stack.client import Client
from tests.stack.running import Running, wait_for
from tests.stack.test_tasks import begin, over
from tests.tools_app.conftest import needs_bwrap
from tests.tools_app.sandbox.conftest import IMAGE, lacking
from tools_app.sandbox.container.engine import connect

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
MINUTES = 60
#: How long a minute of the command takes; the last one waits until everything was killed.
MINUTE = SOAK_SECONDS / MINUTES or 1.0
#: Between two kills, so that each of them meets a stack at work.
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


@pytest.fixture
def container_engine() -> None:
    try:
        image = connect().ask("GET", f"/images/{IMAGE}/json")
    except SandboxUnavailable as fault:
        lacking(fault.detail)
    if not image.is_fine:
        lacking(f"{IMAGE} is not made: run `make containers`")


@pytest.fixture(params=["container", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "container":
        request.getfixturevalue("container_engine")
    return str(request.param)


class LongTask:
    """One task on a running stack, and what is seen of it."""

    def __init__(self, stack: Running, kind: str, command: str = COMMAND) -> None:
        self.stack = stack
        self.client = Client(stack)
        limits = {"wall_seconds": 3_600}
        self.client.call("environments/", {"name": "there", "kind": kind, "limits": limits})
        self.kills: list[str] = []
        self.began = time.monotonic()
        self.id = begin(self.client, command=command, environment="there", timeout=3_600)

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
        """Until those who watch see the command go on, or it waits for its end."""
        before = self.minutes()
        wait_for(lambda: self.minutes() > before or before == MINUTES, "more of the command")
        time.sleep(PAUSE)

    def note(self, what: str) -> None:
        self.kills.append(what)
        seen = self.minutes()
        told = f"{time.monotonic() - self.began:6.0f} s  {what}, at minute {seen} of {MINUTES}"
        os.write(2, f"{told}\n".encode())


def kill_program(task: LongTask, name: str) -> None:
    task.note(f"SIGKILL of {name}")
    old = task.stack.pids()[name]
    for process in [*task.stack.group(old), psutil.Process(old)]:
        if process.is_running():
            process.kill()
    task.stack.wait_until_replaced(name, old)


def stop_all(task: LongTask, number: int) -> None:
    """Have the whole of `up` end by a signal, and start it again."""
    name = signal.Signals(number).name
    task.note(f"{name} of the whole")
    task.stack.kill("up", number)
    task.stack.wait_until_gone(but_keepers=True)
    assert len(task.stack.keepers()) == 1
    task.stack.start()


def kills(task: LongTask) -> Iterator[Callable[[], None]]:
    """Each program, the whole by force and the whole in good order; in a soak again and again."""
    rounds: list[Callable[[], None]] = [
        *(lambda name=name: kill_program(task, name) for name in PROGRAMS),
        lambda: stop_all(task, signal.SIGKILL),
        lambda: stop_all(task, signal.SIGTERM),
    ]
    if not SOAK_SECONDS:
        yield from rounds
        return
    for one in cycle(rounds):
        if task.minutes() >= MINUTES:
            return
        yield one


def test_a_long_task_goes_on_through_the_death_of_every_process(
    make_stack: Make, kind: str
) -> None:
    if SOAK_SECONDS and kind == "local":
        pytest.skip("the soak is about containers")
    stack = make_stack()
    stack.start()
    task = LongTask(stack, kind)
    for kill in kills(task):
        task.wait_for_more()
        kill()
    task.wait_for_more()
    task.files.joinpath("go").touch()
    ended = over(task.client, task.id)

    assert ended["status"] == "complete", ended["error"]
    assert ended["result"]["output"] == WHOLE
    assert task.said() == WHOLE, "nothing is lost or told twice"
    (made,) = [one for one in ended["result"]["artifacts"] if one["path"] == "count"]
    assert made["size"] == len("run\n"), "the command ran once"
    told = task.progress()
    assert told == sorted(told)
    assert told[-1] == 100
    run = next(step for step in ended["steps"] if step["name"] == "run command")
    assert len(run["attempts"]) > 1
    wait_for(lambda: not stack.keepers(), "the end of the keeper")
    task.note(f"the end, after {len(run['attempts'])} attempts at following one command")


def test_a_stop_by_hand_ends_the_command_and_the_task_says_so(make_stack: Make, kind: str) -> None:
    stack = make_stack()
    stack.start()
    task = LongTask(stack, kind, "echo run >> count; echo 'minute 1'; sleep 3000")
    wait_for(task.minutes, "the command's first words")

    assert stack.stop(signal.SIGINT) == 0
    stack.wait_until_gone()
    stack.start()
    ended = over(task.client, task.id)

    assert ended["error"]["code"] == "command_stopped"
    assert "Switchyard was stopped." in ended["error"]["message"]
    assert task.files.joinpath("count").read_text() == "run\n"
    task.client.call(f"workflows/{task.id}/restart/", {"from_step": "run command"})
    wait_for(lambda: stack.keepers(), "the command that a person runs again")
    task.client.call(f"workflows/{task.id}/terminate/", {})
    wait_for(lambda: not stack.keepers(), "the end of the command")
