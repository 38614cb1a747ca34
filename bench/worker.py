"""Runs a real cluster of workers with a model that answers after a given time, without a network.

Run it with `python -m bench.worker`; `MODEL_SECONDS` sets the model's time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import django

django.setup()

from django_q.cluster import Cluster

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
from bench.flows import define
from orchestrator import worker
from sessions_app.harness import answer

SECONDS = float(os.environ["MODEL_SECONDS"])


class TimedModel:
    """Streams three words, the last one after the given time."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if SECONDS:
            yield TextDelta(text="Thinking ")
            time.sleep(SECONDS)
        yield TextDelta(text="is done.")
        yield Usage(input_tokens=len(request.messages), output_tokens=3)


if __name__ == "__main__":
    define()
    answer.provider_for = lambda *_: TimedModel()  # type: ignore[attr-defined]
    worker.install()
    Cluster().start()
