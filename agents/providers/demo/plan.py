"""Reads a message as a list of steps, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agents.providers.demo.grading import (
    is_grade_request,
    is_sent_back,
    second_try,
    verdict_of,
)
from agents.providers.demo.phrases import step_of
from agents.providers.demo.records import is_record_request, is_save_request, notes_of, record_of
from agents.providers.demo.steps import Calls, Help, Say, Step, Wish
from agents.providers.demo.words import summary_of

#: Half a command would be worse than none, so longer messages are refused, not cut.
LONGEST_MESSAGE = 50_000

_BETWEEN = re.compile(r"[ \t]{0,4}\r?\n\s{0,4}|[,;]?\s{1,4}and\s{1,4}then\s{1,4}", re.IGNORECASE)
#: People tell a builder several things in one breath.
_SENTENCES = re.compile(
    rf"{_BETWEEN.pattern}|(?<=[.!?])\s{{1,4}}|,?\s{{1,4}}and\s{{1,4}}", re.IGNORECASE
)
_PARALLEL = re.compile(r"(?:do\s)?in\sparallel\s?[:,]?\s?(?P<rest>.+)", re.IGNORECASE | re.DOTALL)
_SEMICOLON = re.compile(";")
_SUMMARISE = re.compile(r"\s{0,4}(?:please\s)?summari[sz]e\b", re.IGNORECASE)


def plan_of(text: str, *, building: bool = False) -> tuple[Step, ...]:
    """The steps a message asks for; a call for help when it holds none."""
    if is_save_request(text):
        return (Say(text=notes_of(text)),)
    if is_grade_request(text):
        return (Say(text=verdict_of(text)),)
    if is_sent_back(text):
        return (Say(text=second_try(text)),)
    if _SUMMARISE.match(text):
        return (Say(text=record_of(text) if is_record_request(text) else summary_of(text)),)
    if len(text) > LONGEST_MESSAGE:
        return (Say(text=f"The demo reads at most {LONGEST_MESSAGE:,} characters."), Help())
    return tuple(_steps(text, building)) or (Help(),)


def _steps(text: str, building: bool) -> Iterator[Step]:
    """Cut only where a new step begins: `I eat and then sleep` may be one thing to remember."""
    start, first_end, end = 0, 0, 0
    for piece_start, piece_end in _pieces(text, _SENTENCES if building else _BETWEEN):
        if end and _step(text[piece_start:piece_end], building):
            yield from _whole_or_first(text[start:end], text[start:first_end], building)
            start, first_end = piece_start, piece_end
        elif not end:
            start, first_end = piece_start, piece_end
        end = piece_end
    yield from _whole_or_first(text[start:end], text[start:first_end], building)


def _whole_or_first(whole: str, first: str, building: bool) -> Iterator[Step]:
    """The step of all lines together, or of the first alone, as in `list the files⏎thank you`."""
    if step := _step(whole, building) or _step(first, building):
        yield step


def _step(phrase: str, building: bool) -> Step | None:
    if match := _PARALLEL.fullmatch(phrase.strip()):
        return _side_by_side(match["rest"])
    return step_of(phrase, building=building)


def _side_by_side(text: str) -> Step | None:
    wishes: list[Wish] = []
    for start, end in _pieces(text, _SEMICOLON):
        if not (piece := text[start:end].strip()):
            continue
        step = step_of(piece)
        if isinstance(step, Calls):
            wishes.extend(step.wishes)
        else:
            return Say(text=f"Only tool calls can be made in parallel, and this is none: “{piece}”")
    return Calls(wishes=tuple(wishes)) if wishes else None


def _pieces(text: str, separator: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where the pieces between separators begin and end. Quoted text is never cut."""
    start = 0
    for match in separator.finditer(text):
        before = text[start : match.start()]
        if before.count('"') % 2 or before.count("`") % 2 or before.count("“") > before.count("”"):
            continue
        yield start, match.start()
        start = match.end()
    yield start, len(text)
