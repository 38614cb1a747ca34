"""Measures in DBOS what `workflows.py` measures: empty steps, and starts through its queue.

Run it with `python -m bench.dbos_peer`. It prints one line per figure and creates its own database.
"""

from __future__ import annotations

import os
import sys
import time

if path := os.environ.get("DBOS_PATH"):
    sys.path.append(path)

import psycopg
from dbos import DBOS  # type: ignore[import-not-found]

HOST = os.environ["BENCH_HOST"]
STEPS, ROUNDS = int(os.environ["BENCH_STEPS"]), int(os.environ["BENCH_ROUNDS"])
STARTS = int(os.environ["BENCH_STARTS"])
POLL_SECONDS = 0.01

with psycopg.connect(f"host={HOST} user=postgres dbname=postgres", autocommit=True) as server:
    server.execute("CREATE DATABASE dbos_bench")

address = f"postgresql://postgres@/dbos_bench?host={HOST}"
DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})


@DBOS.step()  # type: ignore[untyped-decorator]
def step(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator]
def many(count: int) -> int:
    for number in range(count):
        step(number)
    return 1


@DBOS.workflow()  # type: ignore[untyped-decorator]
def start() -> float:
    return time.time()


def main() -> None:
    DBOS.launch()
    queue = DBOS.register_queue("bench", polling_interval_sec=POLL_SECONDS)
    many(10)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        many(STEPS)
        print("step", (time.perf_counter() - began) / STEPS * 1000, flush=True)
    for nth in range(STARTS + 10):
        before = time.time()
        began_at = queue.enqueue(start).get_result(polling_interval_sec=0.01)
        if nth >= 10:
            print("start", (began_at - before) * 1000, flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main()
