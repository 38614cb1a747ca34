"""Tests that parts which die are restarted and that the stack stays healthy."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import UTC, datetime

import psycopg
import pytest

from core.postgres import socket_dir
from tests.stack.running import LAST_WORDS, Running, wait_for

pytestmark = pytest.mark.stack


def test_a_form_that_cannot_be_parsed_gets_a_response(stack: Running) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    request = urllib.request.Request(f"{stack.base_url}/sign-in/", b"--x--\r\n", kind)  # noqa: S310

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310
    with refused.value as answer:
        assert answer.code == 403  # The missing token was noticed, so the form was read.


@pytest.mark.parametrize(
    "name",
    ["web", "web-2", "workers", "supervisor", "terminals", "watch", "postgres", "guardian"],
)
def test_a_killed_part_is_replaced_and_health_returns(stack: Running, name: str) -> None:
    old = stack.kill(name)

    stack.wait_until_replaced(name, old)

    assert "restarting" in stack.said()
    wait_for(lambda: not stack.group(old), f"the end of what the old {name} forked")


@pytest.mark.parametrize(("name", "kind"), [("workers", "worker"), ("supervisor", "supervisor")])
def test_a_replaced_part_has_a_pulse(stack: Running, name: str, kind: str) -> None:
    stack.wait_until_replaced(name, stack.kill(name))
    replaced = datetime.now(tz=UTC)

    wait_for(lambda: last_pulse(stack, kind) > replaced, f"a pulse of the new {name}")


def last_pulse(stack: Running, kind: str) -> datetime:
    host = str(socket_dir(stack.data_dir))
    with psycopg.connect(host=host, user="postgres", dbname="switchyard") as connection:
        found = connection.execute("SELECT max(at) FROM process_pulses WHERE kind = %s", [kind])
        row = found.fetchone()
    assert row is not None
    pulse: datetime = row[0]
    return pulse


def test_a_second_up_on_the_same_data_directory_is_refused(stack: Running) -> None:
    second = Running(stack.data_dir)
    second.launch()
    assert second.process is not None

    assert second.process.wait(timeout=60) == 1
    assert second.said().count("\n") == 1
    assert "already runs" in second.said()
    assert stack.base_url in second.said()
    wait_for(stack.is_healthy, "health of the first")


def test_a_command_shares_the_running_database_and_leaves_it_running(stack: Running) -> None:
    server = stack.pids()["postgres"]

    done = stack.manage("issue_key", "--workspace", "Shared", "--create")

    assert done.returncode == 0, done.stderr
    assert stack.pids()["postgres"] == server


def test_the_start_prints_the_address_a_link_and_little_else(stack: Running) -> None:
    welcome = stack.said().partition(LAST_WORDS)[0]

    assert f"Switchyard runs at {stack.base_url}/" in welcome
    assert "Sign in with this link, once: " in welcome
    assert len(welcome.strip().splitlines()) <= 5
