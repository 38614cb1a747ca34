"""The lines of a Markdown document: what stands above each, and where an item of a list begins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.providers.estimate import estimate_tokens

#: Longer lines are cut, so that a document without line ends is chunked as well.
LONGEST_LINE = 1_200
#: A list of more items is split by size as other text is.
MOST_ITEMS = 500

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"\s?(?:[-*+]|\d{1,3}[.)])\s+\S")
#: `Caroline: hello`, `- **Caroline:** hello`, `[14:03] Caroline: hello`.
_SPEAKER = re.compile(r"[-*\s]*(?:\[[^\]\n]{1,40}\]\s*)?\**(\w[\w .'-]{0,39})\**:\**\s")
#: A line that says something whole, as people and agents note one fact to a line.
_SENTENCE = re.compile(r"[\"'(*_]*[^\W_].{0,300}[.!?][\"')*_]*$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line, or a part of a long one."""

    text: str
    headings: tuple[str, ...]
    starts_section: bool
    #: A point of a list, a sentence on a line of its own, or somebody's turn in a transcript
    #: begins here, or goes on.
    starts_item: bool
    in_item: bool
    tokens: int

    @property
    def speaker(self) -> str:
        found = _SPEAKER.match(self.text)
        return found[1].strip() if found else ""


def lines_of(content: str) -> Iterator[Line]:
    """The lines of a document, long ones cut, each with the headings above it."""
    above: list[tuple[int, str]] = []
    in_item = False
    fence = ""  # What the block of code that is open began with.
    for whole in content.splitlines():
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
            yield Line(
                text=text,
                headings=tuple(title for _, title in above),
                starts_section=heading is not None,
                starts_item=starts and at == 0,
                in_item=in_item,
                tokens=estimate_tokens(text) + 1,
            )


def is_list(lines: Sequence[Line]) -> bool:
    """Whether a document is a list of facts or a transcript: most of what it says are items."""
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
    """A long line in parts: after a sentence, else between words, else anywhere."""
    while len(line) > LONGEST_LINE:
        ends = [found.end() for found in _SENTENCE_END.finditer(line, 0, LONGEST_LINE)]
        at = ends[-1] if ends else line.rfind(" ", 1, LONGEST_LINE) + 1
        at = at if at > LONGEST_LINE // 4 else LONGEST_LINE
        yield line[:at].rstrip()
        line = line[at:]
    yield line
