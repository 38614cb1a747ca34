"""Brings two changed copies of one text together, line by line, over the text both began with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memory.diffing import matching

#: What stands around lines that both have changed, each in another way.
MINE, BETWEEN, THEIRS = "<<<<<<< mine", "=======", ">>>>>>> theirs"


@dataclass(frozen=True, kw_only=True)
class Merged:
    text: str
    #: How many places both have changed, each in another way.
    clashes: int


def merge(base: str, mine: str, theirs: str) -> Merged:
    """All changes of both. Where they clash, both wordings stand there, marked."""
    lines: list[str] = []
    clashes = 0
    for ours, other, before in _regions(base.split("\n"), mine.split("\n"), theirs.split("\n")):
        if other in (before, ours):
            lines += ours
        elif ours == before:
            lines += other
        else:
            clashes += 1
            lines += [MINE, *ours, BETWEEN, *other, THEIRS]
    return Merged(text="\n".join(lines), clashes=clashes)


def _regions(
    base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """The text cut where all three agree: my lines, their lines and those of the base in turn."""
    at = my = their = 0
    for start, length in [*_anchors(base, mine, theirs), ((len(base), len(mine), len(theirs)), 0)]:
        base_at, my_at, their_at = start
        yield list(mine[my:my_at]), list(theirs[their:their_at]), list(base[at:base_at])
        same = list(base[base_at : base_at + length])
        if same:
            yield same, same, same
        at, my, their = base_at + length, my_at + length, their_at + length


def _anchors(
    base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Runs of the base's lines that stand unchanged in both, with where they stand."""
    in_mine, in_theirs = _places(base, mine), _places(base, theirs)
    at = 0
    while at < len(base):
        length = 0
        while _follows(at, length, base, in_mine, in_theirs):
            length += 1
        if length:
            yield (at, in_mine[at], in_theirs[at]), length
        at += max(length, 1)


def _follows(
    at: int, length: int, base: Sequence[str], mine: dict[int, int], theirs: dict[int, int]
) -> bool:
    """Whether the next line goes on in both copies right where the run has come to."""
    line = at + length
    if line >= len(base) or line not in mine or line not in theirs:
        return False
    return mine[line] == mine[at] + length and theirs[line] == theirs[at] + length


def _places(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Where each unchanged line of the base stands in the other."""
    return {
        block.old + step: block.new + step
        for block in matching(base, other)
        for step in range(block.size)
    }
