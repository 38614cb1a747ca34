"""Compares two texts line by line, and merges two changes of the same text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

#: Unchanged lines kept around a change.
CONTEXT = 3
#: Longer differing parts are not compared line by line, because it would take too long.
MOST_LINES = 4_000


@dataclass(frozen=True, kw_only=True)
class Block:
    """Lines that both texts share: where they begin in each, and how many they are."""

    old: int
    new: int
    size: int


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    kind: Literal["same", "added", "removed", "gap"]
    text: str = ""
    #: The line's number in the old and in the new text.
    old: int | None = None
    new: int | None = None

    @property
    def sign(self) -> str:
        return {"same": " ", "added": "+", "removed": "\u2212", "gap": "\u22ef"}[self.kind]


def matching(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return the lines that both share, in order. The time is bounded for any texts."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    most -= head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    blocks = [Block(old=0, new=0, size=head)]
    if max(len(inner_old), len(inner_new)) <= MOST_LINES:
        found = SequenceMatcher(None, inner_old, inner_new).get_matching_blocks()
        blocks += [Block(old=head + one.a, new=head + one.b, size=one.size) for one in found]
    blocks.append(Block(old=len(old) - tail, new=len(new) - tail, size=tail))
    return [block for block in blocks if block.size]


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """Return the changes with a few lines around each; one gap stands for the lines between."""
    if before == after:
        return []
    old, new = before.split("\n"), after.split("\n")
    lines: list[DiffLine] = []
    at_old = at_new = 0
    for block in [*matching(old, new), Block(old=len(old), new=len(new), size=0)]:
        for at in range(at_old, block.old):
            lines.append(DiffLine(kind="removed", text=old[at], old=at + 1))
        for at in range(at_new, block.new):
            lines.append(DiffLine(kind="added", text=new[at], new=at + 1))
        at_old, at_new = block.old + block.size, block.new + block.size
        ends = at_old == len(old) and at_new == len(new)
        lines += _around(block, old, first=block.old == block.new == 0, last=ends)
    return lines


def _around(block: Block, old: Sequence[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    """Yield the lines of a block that are next to a change."""
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    whole = block.size <= head + tail
    for step in range(block.size):
        if whole or step < head or step >= block.size - tail:
            at = block.old + step
            yield DiffLine(kind="same", text=old[at], old=at + 1, new=block.new + step + 1)
        elif step == head:
            yield DiffLine(kind="gap")


def counted(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """Return how many lines were added, and how many were removed."""
    kinds = [line.kind for line in lines]
    return kinds.count("added"), kinds.count("removed")


#: The markers around lines that both sides have changed differently.
MINE, BETWEEN, THEIRS = "<<<<<<< mine", "=======", ">>>>>>> theirs"


@dataclass(frozen=True, kw_only=True)
class Merged:
    text: str
    #: How many places both sides have changed differently.
    clashes: int


def merge(base: str, mine: str, theirs: str) -> Merged:
    """Apply the changes of both sides. Where they conflict, keep both versions, marked."""
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
    """Yield my lines, their lines and the base's lines for each region between common lines."""
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
    """Yield runs of base lines that are unchanged in both, and where they are."""
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
    """Return whether the next line continues the run in both copies."""
    line = at + length
    if line >= len(base) or line not in mine or line not in theirs:
        return False
    return mine[line] == mine[at] + length and theirs[line] == theirs[at] + length


def _places(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Map each unchanged line of the base to its index in the other text."""
    return {
        block.old + step: block.new + step
        for block in matching(base, other)
        for step in range(block.size)
    }
