"""Splits a Markdown document into overlapping chunks, each knowing its headings and neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agents.providers.estimate import estimate_tokens

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80
#: Longer lines are cut, so that a document without line ends is chunked as well.
LONGEST_LINE = 1_200
#: How much of each neighbour is indexed beside a chunk, from the side where they meet.
BESIDE_CHARACTERS = 1_600

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
#: `Caroline: hello`, `- **Caroline:** hello`, `[14:03] Caroline: hello`.
_SPEAKER = re.compile(r"[-*\s]*(?:\[[^\]\n]{1,40}\]\s*)?\**(\w[\w .'-]{0,39})\**:\**\s")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_WORD_BREAK = re.compile(r"[\W_]+")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One chunk before it is stored."""

    text: str
    #: What it is about: the path's words and the headings above it.
    label: str = ""
    speakers: str = ""
    beside: str = ""


@dataclass(frozen=True, kw_only=True)
class _Line:
    text: str
    headings: tuple[str, ...]
    starts_section: bool
    tokens: int


def chunk(path: str, content: str) -> list[Piece]:
    """The chunks of a document. An empty one has none."""
    about = _WORD_BREAK.sub(" ", path.removesuffix(".md")).strip()
    groups = list(_groups(list(_lines(content))))
    pieces = [_piece(about, group) for group in groups]
    return beside_each_other([piece for piece in pieces if piece.text])


def chunk_lines(path: str, content: str) -> list[Piece]:
    """One chunk for each line that says something, for transcripts and lists of facts."""
    about = _WORD_BREAK.sub(" ", path.removesuffix(".md")).strip()
    said = [line for line in _lines(content) if line.text.strip() and not line.starts_section]
    return beside_each_other([_piece(about, [line]) for line in said])


def beside_each_other(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, each with the text that stands before and after it."""
    texts = ["", *(piece.text for piece in pieces), ""]
    return [
        replace(
            piece,
            beside=f"{texts[at][-BESIDE_CHARACTERS:]}\n{texts[at + 2][:BESIDE_CHARACTERS]}".strip(),
        )
        for at, piece in enumerate(pieces)
    ]


def _piece(about: str, lines: Sequence[_Line]) -> Piece:
    headings = dict.fromkeys(heading for line in lines for heading in line.headings)
    speakers = dict.fromkeys(
        found[1].strip() for line in lines if (found := _SPEAKER.match(line.text))
    )
    text = "\n".join(line.text for line in lines).strip()
    return Piece(text=text, label=" · ".join([about, *headings]), speakers=" · ".join(speakers))


def _lines(content: str) -> Iterator[_Line]:
    """The lines of a document, long ones cut, each with the headings above it."""
    above: list[tuple[int, str]] = []
    for whole in content.splitlines():
        if heading := _HEADING.match(whole):
            depth = len(heading[1])
            above = [*(one for one in above if one[0] < depth), (depth, heading[2])]
        for text in _cut(whole):
            yield _Line(
                text=text,
                headings=tuple(title for _, title in above),
                starts_section=heading is not None,
                tokens=estimate_tokens(text) + 1,
            )


def _cut(line: str) -> Iterator[str]:
    """A long line in parts: after a sentence, else between words, else anywhere."""
    while len(line) > LONGEST_LINE:
        ends = [found.end() for found in _SENTENCE_END.finditer(line, 0, LONGEST_LINE)]
        at = ends[-1] if ends else line.rfind(" ", 1, LONGEST_LINE) + 1
        at = at if at > LONGEST_LINE // 4 else LONGEST_LINE
        yield line[:at].rstrip()
        line = line[at:]
    yield line


def _groups(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Lines put together up to the size of a chunk, each group beginning in the one before it."""
    group: list[_Line] = []
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


def _tail(group: list[_Line]) -> list[_Line]:
    """The last lines of a group that fit into the overlap."""
    kept: list[_Line] = []
    size = 0
    for line in reversed(group):
        size += line.tokens
        if size > OVERLAP_TOKENS:
            break
        kept.insert(0, line)
    return kept
