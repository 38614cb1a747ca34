"""Runs the measured workers: a real cluster, with a model that answers after a given time.

The other scripts start it with `python -m bench.worker`. `MODEL_SECONDS` sets the model's time, and a
message that contains `think for 2 s` sets it for its own answer.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import django

django.setup()

from django_q.cluster import Cluster

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
from bench.rounds import report_start
from orchestrator import Event, Steps, Workflow, worker, workflow
from sessions_app.harness import loop
from sessions_app.lanes import host
from sessions_app.lanes.run_queue import Claim

SECONDS = float(os.environ.get("MODEL_SECONDS", "0"))


@workflow(name="bench-start")
class ReportStart(Workflow):
    """Reports only when it began."""

    def run(self, event: Event, step: Steps) -> float:
        return time.time()


def thinking_seconds(request: ModelRequest) -> float:
    """Return the seconds that the newest message asks for, else the ones of this process."""
    asked = re.search(r"think for ([\d.]+) s", str(request.messages[-1]))
    return float(asked[1]) if asked else SECONDS


class TimedModel:
    """Streams three words, the last one after the given time."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if seconds := thinking_seconds(request):
            yield TextDelta(text="Thinking ")
            time.sleep(seconds)
        yield TextDelta(text="is done.")
        yield Usage(input_tokens=len(request.messages), output_tokens=3)


def report_starts() -> None:
    """Report each run when the first line of its harness is about to run."""
    harness = loop.run

    def run(claim: Claim, *arguments: Any) -> Claim | None:
        report_start(str(claim.run_id))
        return harness(claim, *arguments)

    host.run = run  # type: ignore[assignment,attr-defined]


if __name__ == "__main__":
    report_starts()
    loop.provider_for = lambda *_: TimedModel()  # type: ignore[attr-defined]
    worker.install()
    Cluster().start()
