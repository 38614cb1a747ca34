"""What of a recalled text is shown: the part that matches, or a short text with what is beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory.chunking import BETWEEN
from memory.words import EDGES, split_words

EXCERPT_CHARACTERS = 600


def excerpt_of(
    text: str, query: str, *, headings: Sequence[str] = (), before: str = "", after: str = ""
) -> str:
    """What shows the match, below the headings that it stood under."""
    above = [one for one in headings if one not in text]
    shown = (
        _cut_out(text, query) if len(text) > EXCERPT_CHARACTERS else _in_place(text, before, after)
    )
    return f"# {BETWEEN.join(above)}\n{shown}" if above else shown


def _cut_out(text: str, query: str) -> str:
    """From a little before the first word that was asked for."""
    low = text.lower()
    stems = [word.lower().strip(EDGES)[:5] for word in split_words(query) if len(word) > 3]
    places = [place for stem in stems if (place := low.find(stem)) >= 0]
    start = max(0, min(places, default=0) - EXCERPT_CHARACTERS // 4)
    start = min(start, len(text) - EXCERPT_CHARACTERS)
    piece = text[start : start + EXCERPT_CHARACTERS].strip()
    cut_before, cut_after = start > 0, start + EXCERPT_CHARACTERS < len(text)
    return f"{'… ' if cut_before else ''}{piece}{' …' if cut_after else ''}"


def _in_place(text: str, before: str, after: str) -> str:
    """The text between the lines before and after it, as far as whole ones fit."""
    room = (EXCERPT_CHARACTERS - len(text)) // 2
    own = text.splitlines()
    # Chunks overlap: a line that both have is shown once.
    earlier = [line for line in before.splitlines() if line not in own]
    later = [line for line in after.splitlines() if line not in own]
    shown = [*reversed(_fitting(reversed(earlier), room)), *own, *_fitting(later, room)]
    return "\n".join(shown).strip()


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept
