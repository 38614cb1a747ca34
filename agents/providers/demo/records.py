"""Answers the requests that the runtime sends to a model: summaries, notes and verdicts.

The demo provider cannot write, so it picks lines: those with names, decisions and open questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import cycle, islice

from agents.providers.base import estimate_tokens

LINE_LENGTH = 200
DEFAULT_TOKENS = 600
MOST_NOTES = 30
MOST_FILLER = 20_000
HEADING = "The demo provider is not a model; these lines are picked from the conversation."
#: Untrusted content, between the marks that tell a model so.
FENCED = re.compile(r"<<<UNTRUSTED (\S{1,40})>>>[^\n]*\n(.*?)\n<<<END UNTRUSTED \1>>>", re.DOTALL)

_SAVE = re.compile(r"\s{0,4}save what matters\b", re.IGNORECASE)
_SUMMARISE = re.compile(r"\s{0,4}summarise\b", re.IGNORECASE)
_JUDGE = re.compile(r"\s{0,4}judge this answer\b", re.IGNORECASE)
_SENT_BACK = re.compile(r"\s{0,4}\[Not accepted yet\b")

_TARGET = re.compile(r"at most (\d{2,6}) tokens", re.IGNORECASE)
_MATERIAL = re.compile(r"<<<(\S{1,40}) ([^>\n]{1,200})>>>\n(.*?)\n<<<end \1>>>", re.DOTALL)
_SPEAKER = re.compile(r"^(?:person|agent|agent calls \S{1,160}|\S{1,160} answers): ")
#: Addresses, paths, file names, ticket numbers and identifiers.
_NAME = re.compile(
    r"https?://\S+|(?:[\w.-]+/)+[\w.-]*\w|\b[\w-]+\.[A-Za-z]{1,4}\b|\b[A-Z][A-Z0-9]+-\d+\b"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{4,64}\b|\b[a-z]+(?:_[a-z0-9]+)+\b"
)
_DECISION = re.compile(
    r"\b(?:remember|decided?|decision|agreed?|must|never|always|prefers?|deadline|owner"
    r"|called|named|is|are|was|closes|because|chose|chosen|fact)\b",
    re.IGNORECASE,
)


def record_for(text: str) -> str | None:
    """Return the answer to a request of the runtime, or None when the message is not one."""
    if _SAVE.match(text):
        return notes_of(text)
    if _JUDGE.match(text) and _CRITERIA.search(text):
        return verdict_of(text)
    if _SENT_BACK.match(text):
        return second_try(text)
    if _SUMMARISE.match(text) and _MATERIAL.search(text):
        return summary_of(text)
    return None


def notes_of(text: str) -> str:
    """Return the facts in what people wrote, one a line, or NOTHING when there are none."""
    paragraphs = (" ".join(one.split()) for one in _material(text, "conversation").split("\n\n"))
    messages = [one.removeprefix("person: ") for one in paragraphs if one.startswith("person: ")]
    facts = dict.fromkeys(clip(line, LINE_LENGTH) for line in messages if _is_fact(line))
    return "\n".join(f"- {line}" for line in list(facts)[-MOST_NOTES:]) or "NOTHING"


def summary_of(text: str) -> str:
    """Return names first, then the newest lines, decisions, the earlier summary and the rest."""
    target = _TARGET.search(text)
    room = (int(target[1]) if target else DEFAULT_TOKENS) - estimate_tokens(HEADING)
    conversation, earlier = _material(text, "conversation"), _material(text, "summary")
    asked = text.split("<<<", 1)[0].split("Keep word for word: ")[-1]
    names = dict.fromkeys(
        name.rstrip(".,:;")
        for source in (asked, conversation, earlier)
        for name in reversed(_NAME.findall(source))
    )
    named = f"Names: {', '.join(_fitting(names, room // 3))}"
    lines = _newest_lines(conversation)
    # A question that the agent asked last is at the end of its message.
    newest = [*lines[:2], *(line[-LINE_LENGTH:] for line in lines[:1])]
    facts = [line for line in lines if _is_fact(line)]
    chosen = [*newest, *facts, *_newest_lines(earlier), *lines]
    picked = dict.fromkeys(f"- {clip(line, LINE_LENGTH)}" for line in chosen)
    return "\n".join([HEADING, *_fitting([named, *picked], room)])


def _material(text: str, name: str) -> str:
    return "\n".join(m[3] for m in _MATERIAL.finditer(text) if m[2].startswith(name))


def _newest_lines(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.split("\n") if line.strip()]
    return [line.removeprefix("- ") for line in reversed(lines)]


def _is_fact(line: str) -> bool:
    words = _SPEAKER.sub("", line)
    return bool(_NAME.search(words) or _DECISION.search(words)) and not words.endswith("?")


def _fitting(lines: Iterable[str], tokens: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        tokens -= estimate_tokens(line) + 1
        if tokens < 0:
            break
        kept.append(line)
    return kept


_CRITERIA = re.compile(r"^Criteria: (\[.*\])$", re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"]{1,500})\"|“([^”]{1,500})”|`([^`]{1,500})`")
_LENGTH = re.compile(r"at least (\d{1,6}) words?", re.IGNORECASE)
_LONG_WORD = re.compile(r"[^\W_]{4,64}")
_COMMON = re.compile(
    r"about|also|answer|explains?|from|have|mentions?|must|says|should|that|this|with"
)
_NOT_MET = re.compile(r"^Not met:\n((?:- .*\n?)+)", re.MULTILINE)


def verdict_of(text: str) -> str:
    """Return the verdict on an answer, as a grader gives it: one JSON object."""
    asked = _CRITERIA.search(text)
    criteria = [str(one) for one in json.loads(asked[1])] if asked else []
    material = FENCED.findall(text)
    answer = material[-1][1] if material else ""
    missing = {name: _missing(name, answer) for name in criteria}
    met = "The answer meets this criterion."
    verdict = {
        "met": not any(missing.values()),
        "criteria": [
            {"name": name, "met": not why, "why": why or met} for name, why in missing.items()
        ],
        "feedback": " ".join(filter(None, missing.values())),
    }
    return json.dumps(verdict, ensure_ascii=False)


def _missing(criterion: str, answer: str) -> str:
    """Say what the answer lacks: quoted text, length, or else most words of the criterion."""
    quotes, length = _quotes(criterion), _LENGTH.search(criterion)
    lacking = [one for one in quotes if one.casefold() not in answer.casefold()]
    if lacking:
        return f"The answer lacks {', '.join(f'“{one}”' for one in lacking)}."
    if length and len(answer.split()) < int(length[1]):
        return f"The answer has {len(answer.split())} of {int(length[1])} words."
    if quotes or length:
        return ""
    wanted = {word for word in _words(criterion) if not _COMMON.fullmatch(word)}
    absent = wanted - _words(answer)
    if len(absent) * 2 > len(wanted):
        return f"The answer does not mention {', '.join(sorted(absent))}."
    return ""


def _quotes(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _QUOTED.findall(text)]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _LONG_WORD.findall(text)}


def second_try(text: str) -> str:
    """Return a better answer after a refusal: the quoted text and the length that were missing."""
    listed = _NOT_MET.search(text)
    lines = listed[1].splitlines() if listed else []
    # The grader repeats what is missing, so each quotation is used once.
    parts = list(dict.fromkeys(one for line in lines for one in _quotes(line)))
    parts += [filler(min(int(m[1]), MOST_FILLER)) for line in lines if (m := _LENGTH.search(line))]
    return " ".join(parts) or "The demo provider is not a model and can do no better."


_LOREM = (
    "lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "do",
    "eiusmod", "tempor", "incididunt", "ut", "labore", "et", "dolore", "magna", "aliqua", "enim",
)  # fmt: skip


def filler(count: int) -> str:
    """Return so many words of placeholder text."""
    return " ".join(islice(cycle(_LOREM), count))


def clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"
