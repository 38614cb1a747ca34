"""Whether a summary is good enough to stand for what it replaces. Checked by code, not by a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents.providers.estimate import estimate_tokens
from sessions_app.compaction.prompts import transcript
from sessions_app.models import SessionEvent
from sessions_app.wording import Line, is_told, reworded

E = SessionEvent.Type
LEAST_CHARACTERS = 20
#: A summary may be this much longer than was asked for.
LENIENCY = 1.3
#: How many names are looked for, and which share of them must be there, letter by letter.
SAMPLE, SHARE = 16, 0.6
#: All names together may take this part of the summary, so that there is room to say anything.
NAMES_PART = 2
#: Which share of a question's own words must be there, but no more than so many.
QUESTION_SHARE, QUESTION_WORDS, QUESTIONS = 0.5, 8, 4

_REFUSAL = re.compile(
    r"\W{0,3}(?:i['\u2019]?m sorry|sorry|i (?:can(?:no|['\u2019])t|cannot|am unable|won['\u2019]?t)|as an ai\b"
    r"|unfortunately,? i)",
    re.IGNORECASE,
)
#: Addresses, paths, names of files, tickets, versions, hashes, names with an underscore.
_NAME = re.compile(
    r"https?://[^\s<>\"'`)\]}]+"
    r"|(?<![\w/.-])(?:[\w.-]+/)+[\w.-]*\w"
    r"|(?<![\w/.-])[\w-]+\.(?:[a-z]{1,4}\d?|[A-Z]{2,4})(?![\w.])"
    r"|\b[A-Z][A-Z0-9]+-\d+\b"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{6,64}\b"
    r"|\b[a-z]+(?:_[a-z0-9]+)+\b"
)
_WORD = re.compile(r"\w{4,}")
#: Chinese and Japanese, which have no spaces between words.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a summary is not good enough, if so, and what it should have kept."""

    why: str = ""
    missing: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return not self.why


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a summary of certain lines has to keep."""

    names: tuple[str, ...]
    questions: tuple[str, ...]


def expected_of(lines: Sequence[Line], target: int) -> Expected:
    """What a summary of these lines has to keep within so many tokens."""
    names = _fitting(names_in(lines), target // NAMES_PART)
    return Expected(names=names, questions=open_questions(lines))


def _fitting(names: Sequence[str], tokens: int) -> tuple[str, ...]:
    kept: list[str] = []
    for name in names:
        tokens -= estimate_tokens(name) + 1
        if tokens < 0:
            break
        kept.append(name)
    return tuple(kept)


def names_in(lines: Sequence[Line]) -> tuple[str, ...]:
    """The newest names that people and the agent used, and not only a tool's output."""
    spoken = [line for line in lines if line.type != E.AGENT_TOOL_RESULT]
    found: dict[str, None] = {}
    for told in reversed(list(transcript(spoken))):
        for name in _NAME.findall(told.split(": ", 1)[-1]):
            if len(name) <= 120:
                found.setdefault(name.rstrip(".,:;"), None)
        if len(found) >= SAMPLE:
            break
    return tuple(found)[:SAMPLE]


def open_questions(lines: Sequence[Line]) -> tuple[str, ...]:
    """Messages of people that nobody answered, and the question that the agent asked last."""
    pending: list[str] = []
    last = ""
    for line in filter(is_told, reworded(lines)):
        if line.type == E.USER_MESSAGE:
            pending.append(str(line.payload.get("text", "")))
            last = ""
        elif line.type == E.AGENT_MESSAGE:
            pending, last = [], str(line.payload.get("text", "")).strip()
    asked = [last.splitlines()[-1]] if last.endswith(("?", "\uff1f")) else []
    return tuple(one for one in [*pending, *asked] if _words(one))[-QUESTIONS:]


def judge(summary: str, expected: Expected, target: int) -> Verdict:
    if len(summary) < LEAST_CHARACTERS:
        return Verdict(why="it is empty")
    if _REFUSAL.match(summary):
        return Verdict(why="it is a refusal")
    if (size := estimate_tokens(summary)) > target * LENIENCY:
        return Verdict(why=f"it has about {size} tokens, and {target} are allowed")
    lost = tuple(name for name in expected.names if name not in summary)
    if expected.names and len(lost) > len(expected.names) * (1 - SHARE):
        return Verdict(why=f"{len(lost)} of {len(expected.names)} names are lost", missing=lost)
    unasked = tuple(one for one in expected.questions if not _speaks_of(summary, one))
    if unasked:
        return Verdict(why="an open question is lost", missing=tuple(q[:300] for q in unasked))
    return Verdict()


def _speaks_of(summary: str, question: str) -> bool:
    words = _words(question[:600])
    needed = min(len(words) * QUESTION_SHARE, QUESTION_WORDS)
    return len(words & _words(summary)) >= needed


def _words(text: str) -> set[str]:
    """The longer words of a text; of a language without spaces, each two signs in a row."""
    text = text.lower()
    pairs = {run[at : at + 2] for run in _UNSPACED.findall(text) for at in range(len(run) - 1)}
    return set(_WORD.findall(_UNSPACED.sub(" ", text))) | pairs
