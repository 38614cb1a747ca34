"""Runs a real worker cluster with a recording tool and a crash point, for fault tests.

Run as `python -m tests.faults.worker`. The file `kill_at` in the folder `FAULTS` names the point at
which a process kills itself; it renames the file first, so that only one process dies. Every effect
of the tool `record` is a line of the file `effects`.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import django

django.setup()

from django_q.cluster import Cluster
from pydantic import BaseModel

from orchestrator import worker
from sessions_app.harness import crash_points
from tools_app.policy.effective import Binding
from tools_app.policy.evaluation import Decision, EffectivePolicy
from tools_app.registry import Category, ToolContext, registry, tool

FOLDER = Path(os.environ["FAULTS"])


class Record(BaseModel):
    text: str


@tool(category=Category.TIME)
def record(arguments: Record, context: ToolContext) -> str:
    """Record an effect that cannot be undone."""
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{arguments.text}\n")
    die_once("really_inside_tool")
    return f"recorded {arguments.text}"


def die_once(name: str) -> None:
    """Die if the test has named this crash point."""
    order = FOLDER / "kill_at"
    if not order.exists() or order.read_text() != name:
        return
    with suppress(FileNotFoundError):
        order.rename(FOLDER / "killed")
        os.kill(os.getpid(), signal.SIGKILL)


def allow_everything(*_: object) -> EffectivePolicy:
    allow = Decision(decision="allow", decided_by="fault test")
    return EffectivePolicy(dict.fromkeys(registry, allow))


def main() -> None:
    crash_points.on_reach = die_once
    Binding.policy = allow_everything  # type: ignore[method-assign, assignment]
    worker.install()
    Cluster().start()


if __name__ == "__main__":
    main()
