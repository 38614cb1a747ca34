"""Runs the measured workers: a real cluster, with a model that answers after a given time.

The other scripts start it with `python -m bench.worker`; `MODEL_SECONDS` sets the model's time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

import django

django.setup()

from django_q.cluster import Cluster

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
from orchestrator import Event, Steps, Workflow, worker, workflow
from sessions_app.harness import loop

SECONDS = float(os.environ.get("MODEL_SECONDS", "0"))


@workflow(name="bench-steps")
class ManySteps(Workflow):
    """Does many empty steps."""

    def run(self, event: Event, step: Steps) -> int:
        for nth in range(event.payload["count"]):
            step.do("step", partial(int, nth))
        return 1


@workflow(name="bench-start")
class ReportStart(Workflow):
    """Reports only when it began."""

    def run(self, event: Event, step: Steps) -> float:
        return time.time()


class TimedModel:
    """Streams three words, the last one after the given time."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if SECONDS:
            yield TextDelta(text="Thinking ")
            time.sleep(SECONDS)
        yield TextDelta(text="is done.")
        yield Usage(input_tokens=len(request.messages), output_tokens=3)


if __name__ == "__main__":
    loop.provider_for = lambda *_: TimedModel()  # type: ignore[attr-defined]
    worker.install()
    Cluster().start()
