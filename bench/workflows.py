"""Measures durable steps and starts of workflows, compared with a raw insert.

A step only returns a number. A start lasts from the call to the first line of the workflow's code, in
another process. `compare_peers.py` measures the same beside DBOS.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.latency import raw_commits


def register_steps() -> None:
    """Register a workflow of many empty steps in this process, so that no worker takes it."""
    from orchestrator import Event, Steps, Workflow, workflow

    @workflow(name="bench-steps")
    class ManySteps(Workflow):
        def run(self, event: Event, step: Steps) -> int:
            for nth in range(event.payload["count"]):
                step.do("step", partial(int, nth))
            return 1


def our_steps(count: int, workspace_id: Any) -> float:
    """Do this many empty steps of one workflow in this process."""
    from orchestrator import run_workflow
    from orchestrator.engine import store
    from orchestrator.engine.runner import Runner
    from sessions_app.lanes.signals import StopSignal

    run_workflow("bench-steps", {"count": count}, workspace_id=workspace_id)
    held = store.claim_next(uuid4(), ["bench-steps@1"])
    assert held
    began = time.perf_counter()
    Runner(held, StopSignal(), lambda _: None).run()
    return (time.perf_counter() - began) / count * 1000


def our_starts(count: int, workspace_id: Any) -> list[float]:
    """Return the times from the call to the first line of the workflow's code, by this machine's clock."""
    from orchestrator import run_workflow
    from orchestrator.models import Workflow

    called = {}
    for nth in range(count + 10):
        before = time.time()
        made = run_workflow("bench-start", {}, workspace_id=workspace_id)
        if nth >= 10:  # the first ones plan their statements
            called[made.pk] = before
        time.sleep(0.03)
    while Workflow.objects.filter(name="bench-start").exclude(status="complete").exists():
        time.sleep(0.1)
    ended = Workflow.objects.filter(pk__in=called)
    return [(one.output - called[one.pk]) * 1000 for one in ended]


def main() -> None:
    options = installation.parse_options(__doc__, steps=300, rounds=5, starts=100)
    with installation.running():
        import bench.worker  # noqa: F401 - registers the measured workflows
        from orchestrator.engine.store import use_pool

        register_steps()
        pool = use_pool()
        workspace_id = installation.make_agents()[0].workspace_id
        raw, ours = [], []
        for _ in range(options.rounds):
            raw += raw_commits(options.steps)["commit"]
            ours.append(our_steps(options.steps, workspace_id))
        floor, step = statistics.median(raw), statistics.median(ours)
        print(f"raw insert + commit     {floor:6.2f} ms a step")
        print(f"Switchyard              {step:6.2f} ms a step   {step / floor:4.1f} times raw")
        with installation.workers():
            print(
                f"Switchyard starts       {installation.spread(our_starts(options.starts, workspace_id))}"
            )
        pool.close()


if __name__ == "__main__":
    main()
