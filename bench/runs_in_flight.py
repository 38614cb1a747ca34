"""What share of the ideal throughput is left with a thousand runs in flight at once?

Every session has several messages queued, so that each answer starts the next run. Ideal: the number
of sessions divided by the time that the model takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.yard import make_sessions, send, wait_until_done, workers, yard


def measure(sessions: int, model_seconds: float, rounds: int) -> None:
    from django.db.models import Max, Min

    from sessions_app.models import Run

    done = Run.objects.count()
    made = make_sessions(sessions)
    for _ in range(rounds):
        for session in made:
            send(session)
    with workers(model_seconds=model_seconds):
        wait_until_done(done + sessions * rounds)
    runs = Run.objects.filter(session__in=made)
    span = runs.aggregate(first=Min("started_at"), last=Max("finished_at"))
    took = (span["last"] - span["first"]).total_seconds()
    ideal = rounds * model_seconds
    rate = sessions * rounds / took
    print(
        f"{sessions} in flight, {model_seconds:g} s model: {rate:6.1f} runs/s, "
        f"{ideal / took:.0%} of ideal ({took:.1f} s for {ideal:.1f} s)"
    )


def main() -> None:
    with yard():
        measure(1_000, 10, 3)
        measure(1_000, 2, 8)


if __name__ == "__main__":
    main()
