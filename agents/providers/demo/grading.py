"""How the demo judges: by quoted words, by length, else by the words that a criterion and an answer share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from agents.providers.demo.words import FENCED, filler

MOST_FILLER = 20_000
SHARE = 0.5  #: Of a criterion's telling words, so many must be in the answer.

_ASKED = re.compile(r"\s{0,4}judge this answer\b", re.IGNORECASE)
_CRITERIA = re.compile(r"^Criteria: (\[.*\])$", re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"]{1,500})\"|“([^”]{1,500})”|`([^`]{1,500})`")
_LENGTH = re.compile(r"at least (\d{1,6}) words?", re.IGNORECASE)
_TELLING = re.compile(r"[^\W_]{4,64}")
_PLAIN = re.compile(
    r"about|also|answer|been|contains?|does|from|have|into|mentions?|must|names|says|should|than"
    r"|that|their|them|then|there|these|they|this|were|what|when|which|will|with"
)
_SENT_BACK = re.compile(r"\s{0,4}\[Not accepted yet\b")
_NOT_MET = re.compile(r"^Not met:\n((?:- .*\n?)+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Finding:
    met: bool
    why: str


def is_grade_request(text: str) -> bool:
    return bool(_ASKED.match(text) and _CRITERIA.search(text))


def verdict_of(text: str) -> str:
    """The verdict as a grader gives it: one JSON object."""
    asked = _CRITERIA.search(text)
    criteria = [str(one) for one in json.loads(asked[1])] if asked else []
    material = FENCED.findall(text)
    answer = material[-1][1] if material else ""
    found = [(name, _judged(name, answer)) for name in criteria]
    verdict = {
        "met": all(finding.met for _, finding in found),
        "criteria": [{"name": name, "met": f.met, "why": f.why} for name, f in found],
        "feedback": " ".join(f.why for _, f in found if not f.met),
    }
    return json.dumps(verdict, ensure_ascii=False)


def _judged(criterion: str, answer: str) -> Finding:
    if missing := _missing_words(criterion, answer):
        return Finding(met=False, why=missing)
    if _QUOTED.search(criterion) or _LENGTH.search(criterion):
        return Finding(met=True, why="The answer has what is asked for.")
    wanted = {word for word in _words(criterion) if not _PLAIN.fullmatch(word)}
    lacking = wanted - _words(answer)
    if wanted and len(lacking) > len(wanted) * SHARE:
        return Finding(met=False, why=f"Nothing is said of {', '.join(sorted(lacking))}.")
    return Finding(met=True, why="The answer speaks of it.")


def _missing_words(criterion: str, answer: str) -> str:
    lacking = [one for one in _quotes(criterion) if one.casefold() not in answer.casefold()]
    if lacking:
        return f"The answer lacks {', '.join(f'“{one}”' for one in lacking)}."
    length, count = _LENGTH.search(criterion), len(answer.split())
    if length and count < int(length[1]):
        return f"The answer has {count} of {int(length[1])} words."
    return ""


def _quotes(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _QUOTED.findall(text)]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _TELLING.findall(text)}


def is_sent_back(text: str) -> bool:
    return bool(_SENT_BACK.match(text))


def second_try(text: str) -> str:
    """What the demo says to an answer that was sent back: the words that it was asked for."""
    listed = _NOT_MET.search(text)
    lines = listed[1].splitlines() if listed else []
    # The grader repeats what is missing, so each is said once.
    said = list(dict.fromkeys(one for line in lines for one in _quotes(line)))
    said += [filler(min(int(m[1]), MOST_FILLER)) for line in lines if (m := _LENGTH.search(line))]
    return " ".join(said) or "The demo provider is not a model and can do no better."
