"""Measures durable steps and starts of workflows, compared with DBOS and a raw insert.

One run measures all of them on one durable PostgreSQL, in alternating rounds. A step only returns a
number. A start lasts from the call to the first line of the workflow's code, in another process; DBOS
polls its queue at its shortest interval.

DBOS is not a dependency: without it (`pip install dbos==3.3.0`) its columns stay empty. It may be
installed elsewhere: `DBOS_PATH` names a folder to import it from.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from core.postgres import socket_dir


def raw_steps(count: int) -> float:
    """Insert one row with one commit per step, with a prepared statement."""
    from core.db import connect

    with connect() as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS raw_steps (id bigserial PRIMARY KEY, flow uuid, nth int, "
            "result text, UNIQUE (flow, nth))"
        )
        flow, began = uuid4(), time.perf_counter()
        for nth in range(count):
            database.execute(
                "INSERT INTO raw_steps (flow, nth, result) VALUES (%s, %s, %s)",
                [flow, nth, "1"],
                prepare=True,
            )
        return (time.perf_counter() - began) / count * 1000


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


def dbos_figures(options: Namespace) -> list[tuple[str, float]]:
    """Return the figures of DBOS, measured in a separate process with its own database."""
    counts = {f"BENCH_{name.upper()}": str(count) for name, count in vars(options).items()}
    env = {**os.environ, **counts, "BENCH_HOST": str(socket_dir(installation.FOLDER))}
    peer = [sys.executable, "-m", "bench.dbos_peer"]
    done = subprocess.run(  # noqa: S603 (this interpreter, this folder)
        peer, cwd=installation.ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print("DBOS was not measured:", done.stderr.strip().splitlines()[-1:])
    lines = [
        line.split() for line in done.stdout.splitlines() if line.startswith(("step ", "start "))
    ]
    return [(kind, float(figure)) for kind, figure in lines]


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

        pool = use_pool()
        workspace_id = installation.make_agents()[0].workspace_id
        raw, ours = [], []
        for _ in range(options.rounds):
            raw.append(raw_steps(options.steps))
            ours.append(our_steps(options.steps, workspace_id))
        peer = dbos_figures(options)
        dbos = [figure for kind, figure in peer if kind == "step"]
        floor = statistics.median(raw)
        print(f"raw insert + commit     {floor:6.2f} ms a step")
        for name, figures in (("Switchyard", ours), ("DBOS", dbos)):
            if figures:
                middle = statistics.median(figures)
                print(f"{name:<22}  {middle:6.2f} ms a step   {middle / floor:4.1f} times raw")
        with installation.workers(model_seconds=0):
            print(
                f"Switchyard starts       {installation.spread(our_starts(options.starts, workspace_id))}"
            )
        if starts := [figure for kind, figure in peer if kind == "start"]:
            print(f"DBOS starts             {installation.spread(starts)}")
        pool.close()


if __name__ == "__main__":
    main()
