"""Answers the questions of `compare.py` and `compare_peers.py` about the tree that it stands in.

It runs one temporary installation with two worker processes. Every answer is a set of figures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation, runs_in_flight, workflows
from bench.latency import Conversations, raw_commits, raw_notifications
from bench.rounds import Figures, serve

Questions = dict[str, Callable[..., Figures | None]]


def questions() -> Questions:
    """Return what can be asked, in a running installation."""
    import bench.worker  # noqa: F401 - registers the workflow that reports its start
    from core.db import connect
    from orchestrator.engine.store import use_pool

    workflows.register_steps()
    use_pool()
    conversations = Conversations()
    workspace_id = installation.make_agents()[0].workspace_id

    def step(count: int) -> Figures:
        return {"step": [workflows.our_steps(count, workspace_id)]}

    def workflow_start(count: int) -> Figures:
        return {"workflow start": workflows.our_starts(count, workspace_id)}

    def settle() -> None:
        """Write the pages of what was prepared, so that no checkpoint meets a measurement."""
        with connect() as database:
            database.execute("VACUUM ANALYZE")
            database.execute("CHECKPOINT")

    return {
        "prepare": conversations.prepare,
        "turn": conversations.turn,
        "commit": raw_commits,
        "notify": raw_notifications,
        "step": step,
        "workflow_start": workflow_start,
        "in_flight": runs_in_flight.measure,
        "settle": settle,
    }


def main() -> None:
    with installation.running(), installation.workers():
        serve(questions())


if __name__ == "__main__":
    main()
