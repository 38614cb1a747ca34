"""Measures how soon Celery starts a task: from the call that sends it to its first line.

The broker is Redis with a log that is synced at every write, so that an accepted task survives a crash
as it does in PostgreSQL. The worker has two processes, no results are stored, and other settings are
the defaults: a task whose worker dies is lost.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import celery

# At the end of the path: a package of this repository has the name of one of a peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.peers.worker import worker_process
from bench.rounds import PAUSE_SECONDS, Figures, Starts, report_start, serve

FIRST_TASKS = 10

app = celery.Celery(
    "bench", broker=f"redis+socket://{os.environ.get('BENCH_REDIS')}", task_ignore_result=True
)


@app.task(name="bench")
def bench(id: str) -> None:
    report_start(id)


class Celery:
    """The process that sends tasks."""

    def __init__(self) -> None:
        self._starts = Starts()

    def start(self, count: int) -> Figures:
        return {"start": [self._start() for _ in range(count)]}

    def _start(self) -> float:
        time.sleep(PAUSE_SECONDS)
        id, before = str(uuid4()), time.time()
        bench.delay(id)
        return (self._starts.wait_for(id) - before) * 1000


def main() -> None:
    redis = shutil.which("redis-server")
    if redis is None:
        sys.exit("Celery was not measured: install redis-server.")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        address = os.environ["BENCH_REDIS"] = f"{folder}/redis"
        app.conf.broker_url = f"redis+socket://{address}"
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        where = ["--unixsocket", address, "--port", "0", "--dir", folder]
        stack.enter_context(worker_process([redis, *where, *durable]))
        while not Path(address).exists():
            time.sleep(0.05)
        command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "celery_peer", "worker"]
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)
        stack.enter_context(worker_process([*command, "--concurrency", "2", "-l", "ERROR"]))
        peer = Celery()
        peer.start(FIRST_TASKS)
        serve({"start": peer.start})


if __name__ == "__main__":
    main()
