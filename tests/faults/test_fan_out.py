"""Tests that every child's result arrives exactly once while workers are killed.

The long version is `FAN_OUT=100 CHAOS_SECONDS=60 pytest tests/faults/test_fan_out.py`.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time

import pytest

from tests.faults.chaos import kill_something
from tests.faults.evidence import Evidence
from tests.faults.load import Load
from tests.faults.test_chaos import MAKE_AGENT, SECONDS, running
from tests.stack.running import Running, wait_for

__all__ = ["running"]

CHILDREN = int(os.environ.get("FAN_OUT", "12"))
EVERY_SECONDS = 2.0
RESULTS = """
SELECT payload ->> 'result' FROM session_messages WHERE type = 'session.child_idle'
"""
#: The cost of a tree according to its sessions, its calls and the ledger.
TOTALS = """
SELECT (SELECT sum(cost) FROM agent_sessions), (SELECT sum(cost) FROM model_calls),
       (SELECT -sum(amount) FROM credit_ledger WHERE kind = 'charge')
"""


def fan_out() -> str:
    calls = [
        f"use sessions_spawn with {json.dumps({'task': f'say child {nth}', 'wait': nth % 2 == 0})}"
        for nth in range(CHILDREN)
    ]
    return "in parallel: " + "; ".join(calls)


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_every_child_delivers_once_while_processes_are_killed(running: Running) -> None:
    key = running.manage("issue_key", "--workspace", "Chaos", "--create", "--scope", "admin")
    assert running.manage("shell", "-c", MAKE_AGENT).returncode == 0
    load = Load(
        base_url=running.base_url, key=key.stdout.strip(), sessions=1, messages=0, seconds=1
    )
    made = load.post("sessions/", {"agent": "Chaos", "session_key": "top"}, "top")
    sending = threading.Thread(
        target=load.post,
        args=(f"sessions/{made['id']}/messages/", {"text": fan_out()}, "fan-out"),
    )
    sending.start()
    rng, end, hits = random.Random(2), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        time.sleep(EVERY_SECONDS)
        hits += kill_something(running, rng)
    sending.join()
    assert hits, "somebody was hit"
    evidence = Evidence(running.data_dir)
    wait_for(running.is_healthy, "health", seconds=120)
    wait_for(evidence.is_quiet, "quiet", seconds=240)
    wait_for(lambda: len(evidence.rows(RESULTS)) == CHILDREN, "results", seconds=60)

    assert evidence.faults() == []
    said = sorted(result for (result,) in evidence.rows(RESULTS))
    assert said == sorted(f"child {nth}" for nth in range(CHILDREN))
    told, counted, charged = evidence.rows(TOTALS)[0]
    assert told == counted == charged > 0
