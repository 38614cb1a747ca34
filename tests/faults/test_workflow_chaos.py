"""Tests that all workflows complete while workers are killed, with every attempt accounted for.

The short version runs with every `make test`. The long one is
`CHAOS_WORKFLOWS=200 CHAOS_SHOTS=60 pytest tests/faults/test_workflow_chaos.py`.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.faults.chaos import kill_a_worker, kill_postgres
from tests.faults.evidence import Evidence
from tests.stack.running import Running, started, wait_for

WORKFLOWS = int(os.environ.get("CHAOS_WORKFLOWS", "20"))
STEP_SECONDS = float(os.environ.get("CHAOS_STEP_SECONDS", "0.5"))
KILLS = int(os.environ.get("CHAOS_SHOTS", "5"))
STEPS = 10
START = """
from orchestrator import run_workflow
from orchestrator.workspaces import create_workspace
yard = create_workspace(name="Chaos", owner=None)
for number in range({workflows}):
    run_workflow("chaos", {{"steps": {steps}, "seconds": {seconds}}}, workspace_id=yard.pk,
                 id=f"w{{number}}")
"""
OPEN = "SELECT count(*) FROM workflows WHERE status NOT IN ('complete', 'errored', 'terminated')"
OUTCOMES = "SELECT status, count(*) FROM workflows GROUP BY status"
GAPS = """
SELECT w.key FROM workflows w LEFT JOIN workflow_events e ON e.workflow_id = w.id
 GROUP BY w.id HAVING count(e.*) <> w.last_seq OR max(e.seq) <> w.last_seq
"""
STEPS_DONE = """
SELECT w.key, s.position, s.result, s.attempts,
       (SELECT count(*) FROM workflow_attempts a WHERE a.step_id = s.id AND a.status = 'lost'),
       (SELECT count(*) FROM workflow_events e WHERE e.workflow_id = w.id AND e.type = 'step'
           AND e.payload ->> 'status' = 'complete' AND (e.payload ->> 'position')::int = s.position)
  FROM workflows w JOIN workflow_steps s ON s.workflow_id = w.id
"""


@pytest.fixture
def running() -> Iterator[Running]:
    with started(
        "chaos",
        DJANGO_SETTINGS_MODULE="tests.faults.settings",
        WORKFLOWS_PER_WORKER="16",
        WORKFLOW_MAX_RECOVERIES="200",
    ) as stack:
        yield stack


def rows(running: Running, query: str) -> list[tuple[Any, ...]]:
    return Evidence(running.data_dir).rows(query)


def still_open(running: Running) -> int:
    try:
        return rows(running, OPEN)[0][0]
    except psycopg.Error:
        return -1


def run_while_killing(running: Running, kill: Callable[..., bool], every: float, most: int) -> None:
    """Kill until all workflows have ended, or `most` times if the machine is too slow."""
    code = START.format(workflows=WORKFLOWS, steps=STEPS, seconds=STEP_SECONDS)
    assert running.manage("shell", "-c", code).returncode == 0
    rng = random.Random(1)
    for _ in range(most):
        time.sleep(every)
        if still_open(running) == 0:
            break
        kill(running, rng)
    wait_for(lambda: still_open(running) == 0, "all workflows to be over", seconds=400)


def check(running: Running) -> int:
    """Check every step and return how many attempts were lost."""
    assert rows(running, OUTCOMES) == [("complete", WORKFLOWS)]
    assert rows(running, GAPS) == []
    found = rows(running, STEPS_DONE)
    assert len(found) == WORKFLOWS * STEPS
    bodies = Counter((running.data_dir / "bodies").read_text().splitlines())
    assert [line for line, times in bodies.items() if times > 1] == [], "one attempt, one body"
    per_step = Counter(tuple(line.split()[:2]) for line in bodies)
    for key, position, result, attempts, lost, told in found:
        assert result == f'"{key}:{position}"'
        assert told == 1, "the effect of a step is recorded once"
        assert attempts == lost + 1, (
            "only attempts that were lost are repeated, and all are counted"
        )
        assert 1 <= per_step[key, str(position)] <= attempts
    return sum(lost for *_, lost, _ in found)


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_all_workflows_complete_while_workers_are_killed_every_two_seconds(running):
    run_while_killing(running, kill_a_worker, 2.0, most=KILLS)

    assert check(running) > 0, "somebody was hit"


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_all_workflows_complete_while_postgresql_is_killed(running):
    run_while_killing(running, kill_postgres, 5.0, most=2)

    check(running)
