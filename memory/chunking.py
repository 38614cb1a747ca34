"""Splits a Markdown document into chunks that know their headings and neighbours.

Prose is split into overlapping chunks. In a list of facts or a transcript every item is a chunk of
its own, so that each fact is found separately, with the help of the text beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agents.providers.base import estimate_tokens

#: Longer lines are cut, so that a document without line ends is split as well.
LONGEST_LINE = 1_200
#: A list with more items is split by size, like prose.
MOST_ITEMS = 500

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"\s?(?:[-*+]|\d{1,3}[.)])\s+\S")
#: `Caroline: hello`, `- **Caroline:** hello`, `[14:03] Caroline: hello`.
_SPEAKER = re.compile(r"[-*\s]*(?:\[[^\]\n]{1,40}\]\s*)?\**(\w[\w .'-]{0,39})\**:\**\s")
#: A line that is a whole sentence, as people and agents note one fact per line.
_SENTENCE = re.compile(r"[\"'(*_]*[^\W_].{0,300}[.!?][\"')*_]*$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    """One line, or a part of a long one."""

    text: str
    #: The line of the document that it is or begins in, from 1.
    number: int
    headings: tuple[str, ...]
    starts_section: bool
    #: Whether an item begins here: a bullet, a sentence alone on its line, or a turn in a
    #: transcript. `in_item` is also true for the lines that continue it.
    starts_item: bool
    in_item: bool
    tokens: int

    @property
    def speaker(self) -> str:
        found = _SPEAKER.match(self.text)
        return found[1].strip() if found else ""


def lines_of(content: str) -> Iterator[SourceLine]:
    """Yield the lines of a document, long ones cut, with the headings above each."""
    above: list[tuple[int, str]] = []
    in_item = False
    fence = ""  # The marks that opened the current code block.
    for number, whole in enumerate(content.splitlines(), 1):
        mark = _FENCE.match(whole)
        is_edge = mark is not None and mark[1].startswith(fence)
        if mark and is_edge:
            fence = "" if fence else mark[1]
        heading = _HEADING.match(whole) if not fence else None
        if heading:
            depth = len(heading[1])
            above = [*(one for one in above if one[0] < depth), (depth, heading[2])]
        starts = not (fence or is_edge or heading) and _is_item(whole)
        in_item = starts or (in_item and not heading and bool(whole.strip()))
        for at, text in enumerate(_cut(whole)):
            yield SourceLine(
                text=text,
                number=number,
                headings=tuple(title for _, title in above),
                starts_section=heading is not None,
                starts_item=starts and at == 0,
                in_item=in_item,
                tokens=estimate_tokens(text) + 1,
            )


def is_list(lines: Sequence[SourceLine]) -> bool:
    """Return whether a document is a list of facts or a transcript: most of its text is items."""
    items = sum(line.starts_item for line in lines)
    outside = [line for line in lines if not (line.in_item or line.starts_section)]
    return 1 < items <= MOST_ITEMS and sum(bool(line.text.strip()) for line in outside) <= items


def _is_item(line: str) -> bool:
    if _BULLET.match(line):
        return True
    if line[:1].isspace():
        return False
    return _SPEAKER.match(line) is not None or (
        _SENTENCE.match(line) is not None and not _first_letter(line).islower()
    )


def _first_letter(line: str) -> str:
    return next(letter for letter in line if letter.isalnum())


def _cut(line: str) -> Iterator[str]:
    """Cut a long line after a sentence, else between words, else anywhere."""
    while len(line) > LONGEST_LINE:
        ends = [found.end() for found in _SENTENCE_END.finditer(line, 0, LONGEST_LINE)]
        at = ends[-1] if ends else line.rfind(" ", 1, LONGEST_LINE) + 1
        at = at if at > LONGEST_LINE // 4 else LONGEST_LINE
        yield line[:at].rstrip()
        line = line[at:]
    yield line


CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80
#: How much of each neighbour is indexed with a chunk, from the side where they meet.
BESIDE_CHARACTERS = 1_600

BETWEEN = " · "
_WORD_BREAK = re.compile(r"[\W_]+")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One chunk before it is stored."""

    text: str
    #: The words of the path and the headings above; see `headings_in`.
    label: str = ""
    speakers: str = ""
    beside: str = ""


def chunk(path: str, content: str) -> list[Piece]:
    """Return the chunks of a document. An empty document has none."""
    about = _WORD_BREAK.sub(" ", path.removesuffix(".md")).strip()
    lines = list(lines_of(content))
    groups = _items(lines) if is_list(lines) else _passages(lines)
    pieces = [_piece(about, group) for group in groups]
    return _beside_each_other([piece for piece in pieces if piece.text])


def _items(lines: Sequence[SourceLine]) -> Iterator[list[SourceLine]]:
    """Yield each item with its lines, and the passages between the items.

    A heading above items is part of their labels and needs no separate chunk.
    """
    labels = {heading for line in lines if line.starts_item for heading in line.headings}
    kept = [line for line in lines if not (line.starts_section and line.headings[-1] in labels)]
    for _, group in groupby(_numbered(kept), key=lambda pair: pair[0]):
        yield from _passages([line for _, line in group])


def _numbered(lines: Sequence[SourceLine]) -> Iterator[tuple[int, SourceLine]]:
    """Yield each line with a number that the lines of its item or passage share."""
    number, in_item = 0, False
    for line in lines:
        if line.starts_item or line.in_item != in_item:
            number, in_item = number + 1, line.in_item
        yield number, line


def _beside_each_other(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces, each with the text before and after it."""
    texts = ["", *(piece.text for piece in pieces), ""]
    return [
        replace(
            piece,
            beside=f"{texts[at][-BESIDE_CHARACTERS:]}\n{texts[at + 2][:BESIDE_CHARACTERS]}".strip(),
        )
        for at, piece in enumerate(pieces)
    ]


def _piece(about: str, lines: Sequence[SourceLine]) -> Piece:
    headings = dict.fromkeys(heading for line in lines for heading in line.headings)
    speakers = dict.fromkeys(line.speaker for line in lines if line.speaker)
    text = "\n".join(line.text for line in lines).strip()
    return Piece(text=text, label=BETWEEN.join([about, *headings]), speakers=BETWEEN.join(speakers))


def headings_in(label: str) -> list[str]:
    """Return the headings above a chunk, from its label."""
    return label.split(BETWEEN)[1:]


def _passages(lines: Sequence[SourceLine]) -> Iterator[list[SourceLine]]:
    """Group lines up to the size of a chunk; each group overlaps the one before it."""
    group: list[SourceLine] = []
    fresh = 0  # Lines that no earlier group has.
    size = 0
    for line in lines:
        full = size + line.tokens > CHUNK_TOKENS
        # A new section starts a new chunk, unless the current one is still small.
        turns = line.starts_section and size > CHUNK_TOKENS // 2
        if fresh and (full or turns):
            yield group
            group = [] if turns else _tail(group)
            size, fresh = sum(one.tokens for one in group), 0
        group.append(line)
        size, fresh = size + line.tokens, fresh + 1
    if fresh:
        yield group


def _tail(group: list[SourceLine]) -> list[SourceLine]:
    """Return the last lines of a group that fit into the overlap."""
    kept: list[SourceLine] = []
    size = 0
    for line in reversed(group):
        size += line.tokens
        if size > OVERLAP_TOKENS:
            break
        kept.insert(0, line)
    return kept
