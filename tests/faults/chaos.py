"""Kills processes of a running stack at random. Each function returns whether it killed one."""

from __future__ import annotations

import random
from contextlib import suppress

import psutil

from tests.stack.running import Running


def kill_something(running: Running, rng: random.Random) -> bool:
    """SIGKILL one process of web, workers or supervisor."""
    return kill_one_of(
        rng.choice(["web", "workers", "workers", "workers", "supervisor"]), running, rng
    )


def kill_a_worker(running: Running, rng: random.Random) -> bool:
    return kill_one_of("workers", running, rng)


def kill_one_of(part: str, running: Running, rng: random.Random) -> bool:
    leader = running.pids().get(part)
    if leader:
        with suppress(psutil.Error, IndexError):
            victims = [p.pid for p in running.group(leader)] if part == "workers" else [leader]
            psutil.Process(rng.choice(victims)).kill()
            return True
    return False


def kill_postgres(running: Running, rng: random.Random) -> bool:
    try:
        running.kill("postgres")
    except (KeyError, ProcessLookupError):
        return False
    return True
