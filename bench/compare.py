"""Compares this tree with a base commit. They take turns, so that a busy moment meets both.

    bench/compare.py [--base COMMIT] [--short]

The base is checked out into a temporary worktree and gets this tree's `bench` folder, so both answer
the same questions with the same scripts; where a base's code differs, `bench` adapts to both. Each tree
has its own temporary installation. They are asked one turn at a time, in pairs.

A pair's ratio is this tree's figure divided by the base's. A question fails if the median ratio is above
1.15 and is surely above 1, whatever the noise of the machine, and if both are so again when it is asked
a second time. The default base is the commit named in `bench/BASE`. If the repository does not have the
base, as in a shallow clone, the program says so and measures nothing.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.rounds import MeasuredProcess, spread_of

LIMIT = 1.15
#: The probability that noise alone lets a question fail one of its two sittings.
CHANCE = 0.01


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something that both trees are asked in turn, and which figures of the answer are compared."""

    name: str
    pairs: int
    arguments: dict[str, float]
    #: The names of figures, and what they are called in the report.
    figures: dict[str, str]


def turn(messages: int, pairs: int, **figures: str) -> Question:
    return Question(
        name="turn",
        pairs=pairs,
        arguments={"messages": messages, "count": 1},
        figures={"turn": f"turn, {messages:,} messages", **figures},
    )


STEP = Question(name="step", pairs=40, arguments={"count": 20}, figures={"step": "durable step"})
SHORT = (
    turn(10, 100, accept="accept a message", start="accept → harness starts"),
    turn(1_000, 60),
    STEP,
)
FULL = (
    turn(10, 100, accept="accept a message", start="accept → harness starts"),
    turn(100, 60),
    turn(1_000, 60),
    turn(10_000, 40),
    STEP,
    Question(
        name="workflow_start",
        pairs=40,
        arguments={"count": 1},
        figures={"workflow start": "workflow start"},
    ),
    Question(
        name="in_flight",
        pairs=3,
        arguments={"sessions": 1_000, "model_seconds": 2, "rounds": 4},
        figures={"seconds": "1,000 in flight, model 2 s"},
    ),
)


@dataclass
class Comparison:
    """Two trees, and what they answered: a figure of this tree and one of the base for each pair."""

    today: MeasuredProcess
    base: MeasuredProcess
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def run(self, questions: Sequence[Question]) -> None:
        """Ask everything. The tree that is asked first alternates."""
        for question in questions:
            if messages := question.arguments.get("messages"):
                for side in (self.today, self.base):
                    side.ask("prepare", messages=messages, count=question.pairs)
        for side in (self.today, self.base):
            side.ask("settle")
        for question in questions:
            for nth in range(question.pairs):
                self._ask(question, base_first=nth % 2 == 1)

    def _ask(self, question: Question, *, base_first: bool) -> None:
        order = [self.base, self.today] if base_first else [self.today, self.base]
        answers = {side.name: side.ask(question.name, **question.arguments) for side in order}
        for figure, name in question.figures.items():
            [ours], [theirs] = (answers[side.name][figure] for side in (self.today, self.base))
            self.pairs[name].append((ours, theirs))

    def ratios(self, name: str) -> list[float]:
        return sorted(ours / theirs for ours, theirs in self.pairs[name])

    def slower(self) -> list[str]:
        """Return what became slower than the limit allows, and not by chance."""
        return [
            name
            for name in self.pairs
            if statistics.median(self.ratios(name)) > LIMIT and surely_above(self.ratios(name)) > 1
        ]

    def report(self) -> None:
        width = max(map(len, self.pairs))
        for name, pairs in self.pairs.items():
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"{name:{width}}   {ours:8.2f} to {theirs:8.2f}   ratio {spread_of(self.ratios(name))}, "
                f"surely above {surely_above(self.ratios(name)):.2f}, {len(pairs)} pairs",
                flush=True,
            )


def surely_above(ordered: Sequence[float]) -> float:
    """Return what the true median exceeds, except by a small chance, however noisy the machine is.

    Each value is above the true median with a chance of a half, so the number of those below it is
    binomial. With very few values this is the smallest one.
    """
    count, below, chance = len(ordered), 0, 0.5 ** len(ordered)
    while (chance := chance + math.comb(count, below + 1) * 0.5**count) <= CHANCE:
        below += 1
    return ordered[below]


def find_commit(name: str) -> str | None:
    """Return the full id of a commit, or None if this repository does not have it."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, with the `bench` of this tree."""
    with tempfile.TemporaryDirectory(prefix="switchyard-base-") as parent:
        os.chmod(parent, 0o755)  # noqa: S103 - PostgreSQL runs as another user
        folder = Path(parent) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)  # noqa: S603
        try:
            shutil.rmtree(folder / "bench", ignore_errors=True)
            shutil.copytree(ROOT / "bench", folder / "bench")
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)  # noqa: S603


def start(name: str, tree: Path, stack: ExitStack) -> MeasuredProcess:
    """Start the measured process of a tree, with this interpreter."""
    process = MeasuredProcess(name, [sys.executable, "bench/side.py"], folder=tree, env=os.environ)
    stack.callback(process.close)
    return process


def compare(commit: str, questions: Sequence[Question]) -> bool:
    """Print the ratios and return whether all are within the limit."""
    with ExitStack() as stack:
        base = start("base", stack.enter_context(checked_out(commit)), stack)
        today = start("today", ROOT, stack)
        first = Comparison(today, base)
        first.run(questions)
        first.report()
        if not (slow := first.slower()):
            return True
        print(f"Above {LIMIT} times the base: {', '.join(slow)}. Measuring again …", flush=True)
        again = Comparison(today, base)
        again.run([q for q in questions if set(slow) & set(q.figures.values())])
        again.report()
        slow = [name for name in again.slower() if name in slow]
        if slow:
            print(f"Slower than {commit[:7]}, twice: {', '.join(slow)}", flush=True)
        return not slow


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    default = (ROOT / "bench" / "BASE").read_text().strip()
    parser.add_argument("--base", default=default, help=f"default: {default}, of bench/BASE")
    parser.add_argument("--short", action="store_true", help="fewer questions, within a minute")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes the worktree on the way out
    commit = find_commit(options.base or default)
    if commit is None:
        print(f"NOT MEASURED: this repository does not have the base commit {options.base}.")
        return
    if not compare(commit, SHORT if options.short else FULL):
        sys.exit(1)


if __name__ == "__main__":
    main()
