"""Tests that commands start the database they need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.stack.running import Running

pytestmark = pytest.mark.stack

Make = Callable[..., Running]
QUESTION = (
    "from django.db import connection; print(connection.cursor().execute('SELECT 42').fetchone())"
)


def test_a_command_starts_the_database_and_stops_it_afterwards(make_stack: Make) -> None:
    stack = make_stack()

    done = stack.manage("shell", "--no-imports", "-c", QUESTION)

    assert "(42,)" in done.stdout, done.stderr
    stack.wait_until_gone()


def test_a_command_that_needs_no_database_starts_none(make_stack: Make) -> None:
    stack = make_stack()

    assert stack.manage("help").returncode == 0
    assert not (stack.data_dir / "postgres").exists()


def test_an_unreachable_database_is_reported_in_one_line(make_stack: Make) -> None:
    done = make_stack(DATABASE_URL="postgresql://x@127.0.0.1:1/y").manage("showmigrations")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "Check its host and port" in done.stderr
