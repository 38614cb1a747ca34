"""Measures how soon a run starts and is answered, with histories of several lengths.

Times are taken from the database's clock: accepted (the run's row), started (claimed) and finished
(the answer's commit). The model is instant.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.yard import make_sessions, send, spread, wait_until_done, workers, yard

RUNS = 300
#: Turns before the measurement, in which statements are planned and long histories compacted.
FIRST = 4


def measure(events: int, done: int) -> None:
    from sessions_app.models import Run

    sessions = make_sessions(20, events=events)
    for _ in range(FIRST):
        for session in sessions:
            send(session)
    wait_until_done(done + FIRST * len(sessions))
    ids = []
    for nth in range(RUNS):
        ids.append(send(sessions[nth % len(sessions)]))
        time.sleep(0.02)
    wait_until_done(done + FIRST * len(sessions) + RUNS)
    runs = list(Run.objects.filter(pk__in=ids))
    started = [(r.started_at - r.created_at).total_seconds() * 1000 for r in runs]
    answered = [(r.finished_at - r.created_at).total_seconds() * 1000 for r in runs]
    print(
        f"{events:6d} events   accepted → started {spread(started)}   → answered {spread(answered)}"
    )


def main() -> None:
    with yard(), workers(model_seconds=0):
        done = 0
        for events in (10, 1_000, 10_000):
            measure(events, done)
            done += FIRST * 20 + RUNS


if __name__ == "__main__":
    main()
