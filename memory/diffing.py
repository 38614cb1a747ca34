"""What changed from one text to another, line by line, as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

#: Unchanged lines kept around a change.
CONTEXT = 3
#: Longer stretches that differ are not compared line by line: it would take too long.
MOST_LINES = 4_000


@dataclass(frozen=True, kw_only=True)
class Block:
    """Lines that stand in both texts: from where in each, and how many."""

    old: int
    new: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Line:
    kind: Literal["same", "added", "removed", "gap"]
    text: str = ""
    #: The line's number in the old and in the new text.
    old: int | None = None
    new: int | None = None

    @property
    def sign(self) -> str:
        return {"same": " ", "added": "+", "removed": "\u2212", "gap": "\u22ef"}[self.kind]


def matching(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """What both have in common, in order. The time it takes is bounded, whatever the texts."""
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


def diff_lines(before: str, after: str) -> list[Line]:
    """The changes with a few lines around each; what lies between is one gap."""
    if before == after:
        return []
    old, new = before.split("\n"), after.split("\n")
    lines: list[Line] = []
    at_old = at_new = 0
    for block in [*matching(old, new), Block(old=len(old), new=len(new), size=0)]:
        for at in range(at_old, block.old):
            lines.append(Line(kind="removed", text=old[at], old=at + 1))
        for at in range(at_new, block.new):
            lines.append(Line(kind="added", text=new[at], new=at + 1))
        at_old, at_new = block.old + block.size, block.new + block.size
        ends = at_old == len(old) and at_new == len(new)
        lines += _around(block, old, first=block.old == block.new == 0, last=ends)
    return lines


def _around(block: Block, old: Sequence[str], *, first: bool, last: bool) -> Iterator[Line]:
    """The lines of a block that stand beside a change."""
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    whole = block.size <= head + tail
    for step in range(block.size):
        if whole or step < head or step >= block.size - tail:
            at = block.old + step
            yield Line(kind="same", text=old[at], old=at + 1, new=block.new + step + 1)
        elif step == head:
            yield Line(kind="gap")


def counted(lines: Sequence[Line]) -> tuple[int, int]:
    """How many lines came, and how many went."""
    kinds = [line.kind for line in lines]
    return kinds.count("added"), kinds.count("removed")
