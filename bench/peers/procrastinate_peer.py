"""Measures how soon procrastinate starts a task: from the call that defers it to its first line.

The worker is another process that listens for notifications, as by default. Its task is a coroutine,
which procrastinate runs without a thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from uuid import uuid4

import procrastinate

# At the end of the path: a package of this repository has the name of one of a peer.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from bench.peers.database import create_database
from bench.peers.worker import worker_process
from bench.rounds import PAUSE_SECONDS, Figures, Starts, report_start, serve

FIRST_TASKS = 10


def make_app(address: str) -> procrastinate.App:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address))

    @app.task(name="bench")
    async def bench(id: str) -> None:
        report_start(id)

    return app


class Procrastinate:
    """The process that defers tasks, with one connection."""

    def __init__(self, app: procrastinate.App) -> None:
        self._task = app.tasks["bench"]
        self._starts = Starts()

    def start(self, count: int) -> Figures:
        return {"start": [self._start() for _ in range(count)]}

    def _start(self) -> float:
        time.sleep(PAUSE_SECONDS)
        id, before = str(uuid4()), time.time()
        self._task.defer(id=id)
        return (self._starts.wait_for(id) - before) * 1000


async def work(address: str) -> None:
    app = make_app(address)
    async with app.open_async():
        await app.run_worker_async(install_signal_handlers=False)


def main() -> None:
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    if len(sys.argv) > 1:
        asyncio.run(work(sys.argv[1]))
        return
    address = create_database("procrastinate")
    app = make_app(address)
    with app.open():
        app.schema_manager.apply_schema()
        with worker_process([sys.executable, __file__, address]):
            peer = Procrastinate(app)
            peer.start(FIRST_TASKS)
            serve({"start": peer.start})


if __name__ == "__main__":
    main()
