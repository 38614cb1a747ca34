"""Measures the throughput of a thousand runs in flight, as a share of the ideal, by wall clock.

The workers are idle when the first message is accepted. Every session gets one message, and then the
messages of the next rounds, which wait until the answer before them is committed. The time lasts from
before the first accept to the last answer, so it contains the time until all runs are in flight. The
ideal is the number of rounds times the model's time. Messages are accepted in batches of one commit,
because the load generator shares the processors with what it measures.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.rounds import Figures

BATCH = 50


def measure(sessions: int, model_seconds: float, rounds: int) -> Figures:
    """Return the seconds until all are answered, until all were accepted and until all had started."""
    from django.db import transaction
    from django.db.models import Max, Min

    from sessions_app.models import Run

    made = installation.make_sessions(sessions)
    done = Run.objects.count()
    began = time.time()
    text = f"think for {model_seconds:g} s"
    for _ in range(rounds):
        for first in range(0, sessions, BATCH):
            with transaction.atomic():
                for session in made[first : first + BATCH]:
                    installation.send(session, text)
    accepted = time.time() - began
    installation.wait_until_done(done + sessions * rounds)
    per_session = Run.objects.filter(session__in=made).values("session")
    spans = per_session.annotate(first=Min("started_at"), last=Max("finished_at"))
    last = max(span["last"].timestamp() for span in spans)
    in_flight = max(span["first"].timestamp() for span in spans)
    return {
        "seconds": [last - began],
        "accepted": [accepted],
        "in flight": [in_flight - began],
    }


def main() -> None:
    options = installation.parse_options(__doc__, sessions=1_000)
    with installation.running(), installation.workers():
        measure(20, model_seconds=0.1, rounds=2)  # plans statements
        for model_seconds, rounds in ((10, 3), (2, 8)):
            figures = measure(options.sessions, model_seconds, rounds)
            [seconds], [accepted], [in_flight] = figures.values()
            print(
                f"{options.sessions} in flight, {model_seconds} s model, {rounds} rounds: "
                f"{options.sessions * rounds / seconds:6.1f} runs/s, "
                f"{rounds * model_seconds / seconds:.0%} of ideal (accepted after {accepted:.1f} s, "
                f"all in flight after {in_flight:.1f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
