"""A real cluster of workers whose model answers after a given time, without a network.

Run as `python -m bench.worker`; `MODEL_SECONDS` says how long the model takes.
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
from sessions_app import answer, cluster_guards

SECONDS = float(os.environ["MODEL_SECONDS"])


class TimedModel:
    """Says three words, the last after its time is up."""

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if SECONDS:
            yield TextDelta(text="Thinking ")
            time.sleep(SECONDS)
        yield TextDelta(text="is done.")
        yield Usage(input_tokens=len(request.messages), output_tokens=3)


if __name__ == "__main__":
    define()
    answer.provider_for = lambda *_: TimedModel()  # type: ignore[attr-defined]
    cluster_guards.install()
    Cluster().start()
