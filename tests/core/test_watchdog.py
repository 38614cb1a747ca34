"""Tests that a web process which cannot serve any more ends itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from core.env import ROOT
from core.watchdog import CHECKS_IN_TIME, EXIT_CODE

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 2


@contextmanager
def web_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a web process, and yield it with its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.core.stuck_web", str(SECONDS)],
        cwd=ROOT,
        env=os.environ | {"TEST_DATABASE": str(connection.settings_dict["NAME"])},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
        return bytes(answer.read())


@pytest.mark.parametrize("what", ["connections", "threads"])
def test_a_web_process_without_free_connections_or_threads_ends_itself(what):
    with web_process() as (process, address):
        assert get(f"{address}/{what}") == b"lost"

        assert process.wait(timeout=300) == EXIT_CODE


def test_a_web_process_that_serves_goes_on():
    with web_process() as (process, address):
        for _ in range(3):
            assert get(f"{address}/nothing") == b"still here"
            time.sleep(SECONDS * 2 / CHECKS_IN_TIME)

        assert process.poll() is None
