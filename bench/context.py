"""Measures the cost of a turn after the first compaction, at 1,000 and at 10,000 messages.

It runs in this process with an instant model: reading the context, asking, writing the answer.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.yard import make_sessions, send, spread, yard

TURNS = 100


def measure(messages: int) -> None:
    from sessions_app.models import ContextSnapshot

    [session] = make_sessions(1, events=messages)
    take_turn(session)  # this turn compacts the whole history, in as many rounds as needed
    while session.snapshots.order_by("-id").first().last_seq < messages - 200:
        take_turn(session)
    times, build = [], []
    for _ in range(TURNS):
        build.append(build_time(session))
        began = time.perf_counter()
        take_turn(session)
        times.append((time.perf_counter() - began) * 1000)
    made = ContextSnapshot.objects.filter(session=session).count()
    print(
        f"{messages:6d} messages, {made} snapshots   a turn {spread(times)}   "
        f"its context {statistics.median(build):5.1f} ms"
    )


def build_time(session: object) -> float:
    from sessions_app.context.preview import preview

    began = time.perf_counter()
    preview(session)  # type: ignore[arg-type]
    return (time.perf_counter() - began) * 1000


def take_turn(session: object) -> None:
    from uuid import uuid4

    from sessions_app.harness.loop import run
    from sessions_app.lanes import run_queue
    from sessions_app.lanes.signals import StopSignal

    owner = uuid4()
    send(session, "say hello")
    claim = run_queue.claim(session.pk, owner)  # type: ignore[attr-defined]
    while claim:
        claim = run(claim, owner, StopSignal())


def main() -> None:
    import os

    os.environ["DEMO_DELAY_SECONDS"] = "0"
    with yard():
        for messages in (1_000, 10_000):
            measure(messages)


if __name__ == "__main__":
    main()
