"""Measures the cost of a turn after the first compaction, at 1,000 and at 10,000 messages.

It runs in this process with an instant model: reading the context, asking, writing the answer.
Give it at least 1,000 messages: shorter histories are not compacted.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation


def measure(messages: int, turns: int) -> None:
    from sessions_app.models import ContextSnapshot

    [session] = installation.make_sessions(1, events=messages)
    take_turn(session)  # this turn compacts the whole history, in as many rounds as needed
    while session.snapshots.order_by("-id").first().last_seq < messages - 200:
        take_turn(session)
    times, build = [], []
    for _ in range(turns):
        build.append(build_time(session))
        began = time.perf_counter()
        take_turn(session)
        times.append(installation.milliseconds_since(began))
    made = ContextSnapshot.objects.filter(session=session).count()
    print(
        f"{messages:6d} messages, {made} snapshots   a turn {installation.spread(times)}   "
        f"its context {statistics.median(build):5.1f} ms"
    )


def build_time(session: object) -> float:
    from sessions_app.context.preview import preview

    began = time.perf_counter()
    preview(session)  # type: ignore[arg-type]
    return installation.milliseconds_since(began)


def take_turn(session: object) -> None:
    from sessions_app.harness.loop import run
    from sessions_app.lanes import run_queue
    from sessions_app.lanes.signals import StopSignal

    owner = uuid4()
    installation.send(session, "say hello")
    claim = run_queue.claim(session.pk, owner)  # type: ignore[attr-defined]
    while claim:
        claim = run(claim, owner, StopSignal())


def main() -> None:
    options = installation.parse_options(__doc__, turns=100, messages=[1_000, 10_000])
    os.environ["DEMO_DELAY_SECONDS"] = "0"
    with installation.running():
        for messages in options.messages:
            measure(messages, options.turns)


if __name__ == "__main__":
    main()
