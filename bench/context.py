"""Measures the cost of a turn after the first compaction, at 1,000 and at 10,000 messages, and which
share of the tokens of a talk a provider can read from its cache.

It runs in this process with an instant model: reading the context, asking, writing the answer.
Give it at least 1,000 messages: shorter histories are not compacted. The talk has recall, tools and a
compaction; its requests are also put in a naive order, with what was recalled in front of the history.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation

if TYPE_CHECKING:
    from agents.providers.base import Delta, ModelRequest


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


def take_turn(session: object, text: str = "say hello") -> None:
    installation.send(session, text)
    claim_all(session)


def claim_all(session: object) -> None:
    from sessions_app.harness.loop import run
    from sessions_app.lanes import run_queue
    from sessions_app.lanes.signals import StopSignal

    owner = uuid4()
    claim = run_queue.claim(session.pk, owner)  # type: ignore[attr-defined]
    while claim:
        claim = run(claim, owner, StopSignal())


SUBJECTS = ("kettle", "lantern", "anchor", "ladder", "compass", "barrel", "hammer", "basket")
FILLER = "and what else there is to tell of it, as the crew wrote it down in order " * 5


def measure_cache(turns: int) -> None:
    """Print the share of tokens that each request has in common with the beginning of the last one."""
    from bench.shared_prefix import cacheable_share, naive_order, text_of
    from memory.documents import write_entry
    from memory.models import MemoryEntry
    from memory.ownership import Owner, person
    from sessions_app import runtime

    [session] = installation.make_sessions(1)
    for subject in SUBJECTS:
        write_entry(
            owner=Owner(
                workspace_id=session.workspace_id,
                scope=MemoryEntry.Scope.AGENT,
                owner_id=session.agent_id,
            ),
            path=f"{subject}.md",
            content=f"The {subject} stands in the room of the {subject}.",
            author=person(None),
        )
    requests = record_requests()
    for nth in range(turns):
        act = "list the files and then say" if nth % 3 == 0 else "say"
        take_turn(session, f"{act} where the {SUBJECTS[nth % len(SUBJECTS)]} stands {FILLER}")
        if nth == turns * 3 // 5:
            runtime.compact(session, principal=None, keep_recent_messages=4)
            claim_all(session)
    answers = [one for one in requests if not one.instructions.startswith("You keep the records")]
    ours, naive = map(text_of, answers), map(text_of, map(naive_order, answers))
    print(
        f"{turns} turns, {len(answers)} requests: {cacheable_share(list(ours)):.1%} of the tokens are "
        f"cacheable, {cacheable_share(list(naive)):.1%} in a naive order"
    )


def record_requests() -> list[ModelRequest]:
    from agents.providers.demo import DemoProvider

    requests: list[ModelRequest] = []
    stream = DemoProvider.stream

    def recorded(self: DemoProvider, request: ModelRequest) -> Iterator[Delta]:
        requests.append(request)
        return stream(self, request)

    DemoProvider.stream = recorded  # type: ignore[method-assign]
    return requests


def main() -> None:
    options = installation.parse_options(__doc__, turns=100, messages=[1_000, 10_000], talk=50)
    os.environ["DEMO_DELAY_SECONDS"] = "0"
    with installation.running():
        for messages in options.messages:
            measure(messages, options.turns)
        measure_cache(options.talk)


if __name__ == "__main__":
    main()
