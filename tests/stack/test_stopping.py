"""Tests that no process survives the end of `up` and that no data is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from tests.stack.running import Running

pytestmark = pytest.mark.stack

Make = Callable[..., Running]


def test_a_killed_up_leaves_no_process_and_the_next_start_has_all_data(make_stack: Make) -> None:
    first = make_stack()
    first.start()
    kept = first.manage("issue_key", "--workspace", "Kept", "--create")
    assert kept.returncode == 0, kept.stderr
    first.wait_until_replaced("guardian", first.kill("guardian"))  # The new one must work as well.

    first.kill("up")

    first.wait_until_gone()
    second = make_stack()
    second.start()
    assert second.manage("issue_key", "--workspace", "Kept").returncode == 0
    # A suspended program that ignores the signal does not keep the others from stopping.
    second.kill("supervisor", signal.SIGSTOP)
    assert second.stop(signal.SIGTERM) == 0
    second.wait_until_gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_starting_leaves_no_process(make_stack: Make, number: int) -> None:
    starting = make_stack()
    starting.launch()
    starting.wait_while_starting(lambda: "postgres" in starting.pids(), "PostgreSQL")

    assert starting.stop(number) == 0
    starting.wait_until_gone()


def database_programs(stack: Running) -> set[str]:
    names = set()
    for process in stack.everything():
        with suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names & {"initdb", "pg_ctl", "postgres"}


def test_up_killed_while_postgres_starts_leaves_no_process(make_stack: Make) -> None:
    starting = make_stack()
    starting.launch()
    starting.wait_while_starting(lambda: database_programs(starting), "PostgreSQL's programs")

    starting.kill("up")

    starting.wait_until_gone()
