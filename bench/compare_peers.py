"""Compares Switchyard with other systems, which take turns with it on one PostgreSQL server.

The peers run in an environment of their own, which is made in `var/bench-peers` from
`bench/peers/requirements.txt`. Each file of `bench/peers` says exactly what it does. All models answer
at once. Every figure is the median over all rounds, in milliseconds.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.rounds import STARTS_VARIABLE, Figures, MeasuredProcess
from bench.side import Questions, questions
from core.postgres import socket_dir

LENGTHS = (10, 100, 1_000, 10_000)
#: The goal for a turn: its share of LangGraph's time, by length.
SHARES = {10: 0.5, 100: 0.4, 1_000: 0.125, 10_000: 0.02}
#: Turns in a round. A turn of a peer takes up to half a second with the longest history.
TURNS = {10: 10, 100: 10, 1_000: 6, 10_000: 3}


class Sitting:
    """Switchyard and some peers, which are asked one after the other, and what they answered.

    Only these peers run, because some of them poll while they are idle.
    """

    def __init__(self, ours: Questions, stack: ExitStack, *peers: str) -> None:
        self._figures: Figures = defaultdict(list)
        self._ours = ours
        self._peers = start_peers(peers, stack)

    def ask_peer(self, name: str, question: str, **arguments: int) -> None:
        self._keep(name, arguments, self._peers[name].ask(question, **arguments))

    def ask_us(self, question: str, **arguments: int) -> None:
        self._keep("ours", arguments, self._ours[question](**arguments) or {})

    def _keep(self, name: str, arguments: dict[str, int], answer: Figures) -> None:
        length = f" {arguments['messages']}" if "messages" in arguments else ""
        for figure, values in answer.items():
            self._figures[f"{name} {figure}{length}"] += values

    def median(self, figure: str) -> float:
        return statistics.median(self._figures[figure])


def start_peers(names: Sequence[str], stack: ExitStack) -> dict[str, MeasuredProcess]:
    """Start these peers on our server, each with a socket for its starts."""
    python = str(installation.install("requirements.txt", into="bench-peers"))
    folder = installation.FOLDER
    env = {**os.environ, "BENCH_HOST": str(socket_dir(folder))}
    del env["DJANGO_SETTINGS_MODULE"]  # Celery would load Django
    peers = {}
    for name in names:
        peers[name] = MeasuredProcess(
            name,
            [python, f"bench/peers/{name}_peer.py"],
            folder=installation.ROOT,
            env={**env, STARTS_VARIABLE: str(folder / f"starts-{name}")},
        )
        stack.callback(peers[name].close)
    return peers


@dataclass(frozen=True, kw_only=True)
class Goal:
    """How our figure compares with another one, and how it should."""

    name: str
    ratio: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.ratio <= self.limit


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    question: str
    floor: str
    peers: dict[str, float]
    ours: float
    goals: Sequence[Goal] = ()

    def __str__(self) -> str:
        peers = ", ".join(f"{name} {figure:.1f}" for name, figure in self.peers.items())
        ratios = ", ".join(f"{goal.ratio:.2f} of {goal.name}" for goal in self.goals)
        limits = ", ".join(f"≤ {goal.limit:g}" for goal in self.goals)
        met = "" if not self.goals else "yes" if all(g.is_met for g in self.goals) else "no"
        cells = (self.question, self.floor, peers, f"{self.ours:.2f}", ratios, limits, met)
        return "| " + " | ".join(cells) + " |"


def compare_turns(ours: Questions, rounds: int, lengths: Sequence[int]) -> list[Row]:
    """Compare turns with LangGraph and the OpenAI Agents SDK."""
    peers = ("langgraph", "agents")
    with ExitStack() as stack:
        sitting = Sitting(ours, stack, *peers)
        for length in lengths:
            several = {"messages": length, "count": rounds * TURNS[length]}
            sitting.ask_us("prepare", **several)
            for name in peers:
                sitting.ask_peer(name, "prepare", **several)
        sitting.ask_us("settle")
        for _ in range(rounds):
            sitting.ask_us("commit", count=30)
            for length in lengths:
                some = {"messages": length, "count": TURNS[length]}
                sitting.ask_us("turn", **some)
                for name in peers:
                    sitting.ask_peer(name, "turn", **some)
    return [turn_row(sitting, length, lengths[0]) for length in lengths]


def turn_row(sitting: Sitting, length: int, shortest: int) -> Row:
    """Compare a turn of one length, and the longest one with our shortest."""
    ours = sitting.median(f"ours turn {length}")
    peers = {
        "LangGraph": sitting.median(f"langgraph turn async {length}"),
        "`sync`": sitting.median(f"langgraph turn sync {length}"),
        "`exit`": sitting.median(f"langgraph turn exit {length}"),
        "Agents SDK": sitting.median(f"agents turn {length}"),
        "with a limit of 200": sitting.median(f"agents turn limit 200 {length}"),
    }
    goals = [Goal(name="LangGraph", ratio=ours / peers["LangGraph"], limit=SHARES[length])]
    if length == 10:
        goals.append(Goal(name="`exit`", ratio=ours / peers["`exit`"], limit=1))
    if length == 10_000 and shortest < length:
        growth = ours / sitting.median(f"ours turn {shortest}")
        goals.append(Goal(name=f"ours at {shortest}", ratio=growth, limit=1.1))
    floor = f"3 commits {3 * sitting.median('ours commit'):.2f}"
    return Row(
        question=f"turn, {length:,} messages", floor=floor, peers=peers, ours=ours, goals=goals
    )


def compare_starts(ours: Questions, rounds: int) -> Row:
    """Compare the start of a run with the start of a task in procrastinate and Celery."""
    with ExitStack() as stack:
        sitting = Sitting(ours, stack, "procrastinate", "celery")
        sitting.ask_us("prepare", messages=10, count=rounds * 20)
        for _ in range(rounds):
            sitting.ask_us("notify", count=30)
            sitting.ask_us("turn", messages=10, count=20)
            sitting.ask_peer("procrastinate", "start", count=20)
            sitting.ask_peer("celery", "start", count=20)
    start = sitting.median("ours start 10")
    peers = {
        "procrastinate": sitting.median("procrastinate start"),
        "Celery": sitting.median("celery start"),
    }
    return Row(
        question="accept → harness starts",
        floor=f"NOTIFY {sitting.median('ours notify'):.2f}",
        peers=peers,
        ours=start,
        goals=[Goal(name="procrastinate", ratio=start / peers["procrastinate"], limit=0.7)],
    )


def compare_workflows(ours: Questions, rounds: int) -> list[Row]:
    """Compare steps and starts of workflows with DBOS."""
    with ExitStack() as stack:
        sitting = Sitting(ours, stack, "dbos")
        for _ in range(rounds):
            sitting.ask_us("commit", count=100)
            sitting.ask_us("step", count=100)
            sitting.ask_peer("dbos", "step", count=100)
            sitting.ask_us("workflow_start", count=10)
            sitting.ask_peer("dbos", "workflow_start", count=10)
    step, commit = sitting.median("ours step"), sitting.median("ours commit")
    steps = Row(
        question="durable step",
        floor=f"commit {commit:.2f}",
        peers={"DBOS": sitting.median("dbos step")},
        ours=step,
        goals=[Goal(name="commit", ratio=step / commit, limit=1.8)],
    )
    starts = Row(
        question="workflow start",
        floor="",
        peers={"DBOS": sitting.median("dbos workflow start")},
        ours=sitting.median("ours workflow start"),
    )
    return [steps, starts]


def measure_in_flight(ours: Questions, seconds: int, rounds: int, share: float) -> Row:
    """Compare a thousand runs in flight with the ideal; there is no peer."""
    answer = ours["in_flight"](sessions=1_000, model_seconds=seconds, rounds=rounds) or {}
    [took] = answer["seconds"]
    return Row(
        question=f"1,000 in flight, model {seconds} s, {rounds} rounds, in seconds",
        floor=f"ideal {seconds * rounds}",
        peers={},
        ours=took,
        goals=[Goal(name="ideal", ratio=took / (seconds * rounds), limit=round(1 / share, 2))],
    )


def main() -> None:
    options = installation.parse_options(__doc__, rounds=5, messages=list(LENGTHS))
    with installation.running(), installation.workers():
        ours = questions()
        rows = [
            *compare_turns(ours, options.rounds, options.messages),
            compare_starts(ours, options.rounds),
            *compare_workflows(ours, options.rounds),
            measure_in_flight(ours, seconds=2, rounds=8, share=0.9),
            measure_in_flight(ours, seconds=10, rounds=3, share=0.97),
        ]
    print("| question | floor | peers | ours | ratio | goal | met |")
    print("|---|---|---|---|---|---|---|")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
