"""Splits a Markdown document into chunks, each knowing its headings and neighbours.

Prose is put together to chunks that overlap. In a list of facts or a transcript every item is a
chunk of its own: a fact is found by itself, and what stands beside it helps to find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from memory.lines import Line, is_list, lines_of

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80
#: How much of each neighbour is indexed beside a chunk, from the side where they meet.
BESIDE_CHARACTERS = 1_600

BETWEEN = " · "
_WORD_BREAK = re.compile(r"[\W_]+")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One chunk before it is stored."""

    text: str
    #: What it is about: the path's words and the headings above it; see `headings_in`.
    label: str = ""
    speakers: str = ""
    beside: str = ""


def chunk(path: str, content: str) -> list[Piece]:
    """The chunks of a document. An empty one has none."""
    about = _WORD_BREAK.sub(" ", path.removesuffix(".md")).strip()
    lines = list(lines_of(content))
    groups = _items(lines) if is_list(lines) else _passages(lines)
    pieces = [_piece(about, group) for group in groups]
    return _beside_each_other([piece for piece in pieces if piece.text])


def _items(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Each item with the lines that belong to it; what stands between the items, in passages.

    A heading over items is in their labels and needs no chunk of its own.
    """
    labels = {heading for line in lines if line.starts_item for heading in line.headings}
    said = [line for line in lines if not (line.starts_section and line.headings[-1] in labels)]
    for _, group in groupby(_numbered(said), key=lambda one: one[0]):
        yield from _passages([line for _, line in group])


def _numbered(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    """Each line with a number that it shares with the lines of its item, or of its passage."""
    number, in_item = 0, False
    for line in lines:
        if line.starts_item or line.in_item != in_item:
            number, in_item = number + 1, line.in_item
        yield number, line


def _beside_each_other(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, each with the text that stands before and after it."""
    texts = ["", *(piece.text for piece in pieces), ""]
    return [
        replace(
            piece,
            beside=f"{texts[at][-BESIDE_CHARACTERS:]}\n{texts[at + 2][:BESIDE_CHARACTERS]}".strip(),
        )
        for at, piece in enumerate(pieces)
    ]


def _piece(about: str, lines: Sequence[Line]) -> Piece:
    headings = dict.fromkeys(heading for line in lines for heading in line.headings)
    speakers = dict.fromkeys(line.speaker for line in lines if line.speaker)
    text = "\n".join(line.text for line in lines).strip()
    return Piece(text=text, label=BETWEEN.join([about, *headings]), speakers=BETWEEN.join(speakers))


def headings_in(label: str) -> list[str]:
    """The headings that stood above a chunk, from its label."""
    return label.split(BETWEEN)[1:]


def _passages(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Lines put together up to the size of a chunk, each group beginning in the one before it."""
    group: list[Line] = []
    fresh = 0  # lines that no earlier group has
    size = 0
    for line in lines:
        full = size + line.tokens > CHUNK_TOKENS
        # A new section starts a chunk of its own, unless that would make a very small one.
        turns = line.starts_section and size > CHUNK_TOKENS // 2
        if fresh and (full or turns):
            yield group
            group = [] if turns else _tail(group)
            size, fresh = sum(one.tokens for one in group), 0
        group.append(line)
        size, fresh = size + line.tokens, fresh + 1
    if fresh:
        yield group


def _tail(group: list[Line]) -> list[Line]:
    """The last lines of a group that fit into the overlap."""
    kept: list[Line] = []
    size = 0
    for line in reversed(group):
        size += line.tokens
        if size > OVERLAP_TOKENS:
            break
        kept.insert(0, line)
    return kept
