"""Measures how soon a run starts and is answered, with histories of several lengths.

Times are taken from the database's clock: accepted (the run's row), started (claimed) and finished
(the answer's commit). The model is instant.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation

SESSIONS = 20
#: Turns before the measurement, in which statements are planned and long histories compacted.
FIRST = 4


def measure(events: int, count: int) -> None:
    from sessions_app.models import Run

    done = Run.objects.count()
    sessions = installation.make_sessions(SESSIONS, events=events)
    for _ in range(FIRST):
        for session in sessions:
            installation.send(session)
    installation.wait_until_done(done + FIRST * SESSIONS)
    ids = []
    for nth in range(count):
        ids.append(installation.send(sessions[nth % SESSIONS]))
        time.sleep(0.02)
    installation.wait_until_done(done + FIRST * SESSIONS + count)
    runs = list(Run.objects.filter(pk__in=ids))
    started = [(r.started_at - r.created_at).total_seconds() * 1000 for r in runs]
    answered = [(r.finished_at - r.created_at).total_seconds() * 1000 for r in runs]
    print(
        f"{events:6d} events   accepted → started {installation.spread(started)}   → answered {installation.spread(answered)}"
    )


def main() -> None:
    options = installation.parse_options(__doc__, runs=300, events=[10, 1_000, 10_000])
    with installation.running(), installation.workers(model_seconds=0):
        for events in options.events:
            measure(events, options.runs)


if __name__ == "__main__":
    main()
