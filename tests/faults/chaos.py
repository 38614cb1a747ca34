"""What is shot at a running stack: any of its processes, at random."""

from __future__ import annotations

import random
from contextlib import suppress

import psutil

from tests.stack.running import Running


def kill_something(running: Running, rng: random.Random) -> None:
    """SIGKILL one process of web, workers or supervisor, whatever it is doing."""
    kill_one_of(rng.choice(["web", "workers", "workers", "workers", "supervisor"]), running, rng)


def kill_a_worker(running: Running, rng: random.Random) -> None:
    kill_one_of("workers", running, rng)


def kill_one_of(part: str, running: Running, rng: random.Random) -> None:
    leader = running.pids().get(part)
    if leader:
        with suppress(psutil.Error, IndexError):
            victims = [p.pid for p in running.group(leader)] if part == "workers" else [leader]
            psutil.Process(rng.choice(victims)).kill()


def kill_postgres(running: Running, rng: random.Random) -> None:
    with suppress(KeyError, ProcessLookupError):
        running.kill("postgres")
