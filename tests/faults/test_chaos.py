"""Tests that each message is answered exactly once while processes are killed at random.

The short version runs with every `make test`. The long one is
`CHAOS_SESSIONS=200 CHAOS_MESSAGES=5 CHAOS_SECONDS=60 pytest tests/faults/test_chaos.py`.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.chaos import kill_postgres, kill_something
from tests.faults.evidence import Evidence
from tests.faults.load import Load
from tests.stack.running import Running, started, wait_for

SESSIONS = int(os.environ.get("CHAOS_SESSIONS", "12"))
MESSAGES = int(os.environ.get("CHAOS_MESSAGES", "3"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", "12"))
EVERY_SECONDS = 2.0
MAKE_AGENT = """
from decimal import Decimal
from agents.definitions import create_agent
from agents.model_catalog import set_price
from tenants.billing.credits import add_credits
from tenants.workspaces import find_workspace
from tools_app import save_tool_policy
pk = find_workspace("Chaos").pk
limits = {"max_children": 1000, "max_children_total": 1000, "max_tool_calls": 1000}
agent = create_agent(
    workspace_id=pk, fields={"name": "Chaos", "provider": "demo", "model": "demo", "limits": limits})
save_tool_policy(agent.pk, {"profile": "full"})
set_price(pk, provider="demo", model="demo", input_price=Decimal(1), output_price=Decimal(1))
add_credits(pk, Decimal(100000), kind="grant")
"""


@pytest.fixture
def running() -> Iterator[Running]:
    with started(
        "chaos",
        DJANGO_SETTINGS_MODULE="tests.faults.settings",
        DEMO_DELAY_SECONDS="0.005",
        RUN_MAX_ATTEMPTS="50",
    ) as stack:
        yield stack


def send_while_killing(
    running: Running, kill: Callable[[Running, random.Random], bool], every: float
):
    """Send the load while processes are killed, then wait until every session is idle."""
    key = running.manage("issue_key", "--workspace", "Chaos", "--create", "--scope", "admin")
    assert running.manage("shell", "-c", MAKE_AGENT).returncode == 0
    load = Load(
        base_url=running.base_url,
        key=key.stdout.strip(),
        sessions=SESSIONS,
        messages=MESSAGES,
        seconds=SECONDS,
    )
    sending = threading.Thread(target=load.run)
    sending.start()
    rng, end, hits = random.Random(1), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        time.sleep(every)
        hits += kill(running, rng)
    sending.join()
    assert hits, "somebody was hit"
    assert load.failures == []
    evidence = Evidence(running.data_dir)
    wait_for(running.is_healthy, "health", seconds=120)
    wait_for(evidence.is_quiet, "quiet", seconds=240)
    return load, evidence


def check(load: Load, evidence: Evidence) -> None:
    assert evidence.faults() == []
    sent = {session: sorted(texts) for session, texts in load.texts.items()}
    assert {s: sorted(texts) for s, texts in evidence.messages().items()} == sent


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_every_message_is_answered_once_while_processes_are_killed(running):
    check(*send_while_killing(running, kill_something, EVERY_SECONDS))


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_every_message_is_answered_once_while_postgresql_is_killed(running):
    check(*send_while_killing(running, kill_postgres, SECONDS / 2.5))
