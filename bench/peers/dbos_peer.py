"""Measures in DBOS an empty durable step, and the start of a workflow through its queue.

A step only returns a number. A start lasts from the call that queues the workflow to the first line of
its code; DBOS polls its queue, here every ten milliseconds, on threads of the same process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dbos import DBOS

# At the end of the path: a package of this repository has the name of one of a peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.peers.database import create_database
from bench.rounds import PAUSE_SECONDS, Figures, serve

POLL_SECONDS = 0.01
FIRST_WORKFLOWS = 10


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def many(count: int) -> int:
    for number in range(count):
        step(number)
    return 1


@DBOS.workflow()
def report() -> float:
    return time.time()


class Workflows:
    """The process that starts workflows and runs them."""

    def __init__(self) -> None:
        self._queue = DBOS.register_queue("bench", polling_interval_sec=POLL_SECONDS)

    def step(self, count: int) -> Figures:
        began = time.perf_counter()
        many(count)
        return {"step": [(time.perf_counter() - began) / count * 1000]}

    def start(self, count: int) -> Figures:
        return {"workflow start": [self._start() for _ in range(count)]}

    def _start(self) -> float:
        time.sleep(PAUSE_SECONDS)
        before = time.time()
        began = self._queue.enqueue(report).get_result(polling_interval_sec=POLL_SECONDS)
        return (began - before) * 1000


def main() -> None:
    address = create_database("dbos")
    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})
    DBOS.launch()
    peer = Workflows()
    peer.step(FIRST_WORKFLOWS)
    peer.start(FIRST_WORKFLOWS)
    serve({"step": peer.step, "workflow_start": peer.start})
    DBOS.destroy()


if __name__ == "__main__":
    main()
