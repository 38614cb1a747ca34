"""Measures the throughput of a thousand runs in flight, as a share of the ideal.

Every session has several messages queued, so that each answer starts the next run. The ideal is the
number of sessions divided by the model's time. Each session is timed from its first start to its last
answer; the time until all runs are in flight is reported separately.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation


def measure(sessions: int, model_seconds: float, rounds: int) -> None:
    from django.db.models import Max, Min

    from sessions_app.models import Run

    done = Run.objects.count()
    made = installation.make_sessions(sessions)
    for _ in range(rounds):
        for session in made:
            installation.send(session)
    with installation.workers(model_seconds=model_seconds):
        installation.wait_until_done(done + sessions * rounds)
    per_session = Run.objects.filter(session__in=made).values("session")
    spans = per_session.annotate(first=Min("started_at"), last=Max("finished_at"))
    took = mean((span["last"] - span["first"]).total_seconds() for span in spans)
    begins = [span["first"] for span in spans]
    ramp = (max(begins) - min(begins)).total_seconds()
    share = rounds * model_seconds / took
    rate = share * sessions / model_seconds
    print(
        f"{sessions} in flight, {model_seconds:g} s model: {rate:6.1f} runs/s, "
        f"{share:.0%} of ideal (all in flight after {ramp:.1f} s)",
        flush=True,
    )


def main() -> None:
    options = installation.parse_options(__doc__, sessions=1_000)
    with installation.running():
        measure(options.sessions, model_seconds=10, rounds=3)
        measure(options.sessions, model_seconds=2, rounds=8)


if __name__ == "__main__":
    main()
