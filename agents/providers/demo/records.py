"""How the demo keeps records: it picks out the lines that hold names, decisions and questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from agents.providers.demo.words import clip
from agents.providers.estimate import estimate_tokens

LINE_LENGTH = 200
USUAL_TOKENS = 600
MOST_NOTES = 30

_SAVE = re.compile(r"\s{0,4}save what matters\b", re.IGNORECASE)
_TARGET = re.compile(r"at most (\d{2,6}) tokens", re.IGNORECASE)
_BETWEEN = re.compile(r"<<<(\S{1,40}) ([^>\n]{1,200})>>>\n(.*?)\n<<<end \1>>>", re.DOTALL)
_SPEAKER = re.compile(r"^(?:person|agent|agent calls \S{1,160}|\S{1,160} answers): ")
_NAME = re.compile(
    r"https?://\S+|(?:[\w.-]+/)+[\w.-]*\w|\b[\w-]+\.[A-Za-z]{1,4}\b|\b[A-Z][A-Z0-9]+-\d+\b"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{4,64}\b|\b[a-z]+(?:_[a-z0-9]+)+\b"
)
_WEIGHTY = re.compile(
    r"\b(?:remember|decided?|decision|agreed?|must|never|always|prefers?|deadline|password|owner"
    r"|called|named|is|are|was|closes|because|chose|chosen|fact)\b",
    re.IGNORECASE,
)


def is_save_request(text: str) -> bool:
    return bool(_SAVE.match(text))


def notes_of(text: str) -> str:
    """The facts in what people said, one a line; NOTHING when there are none."""
    said = [
        line.removeprefix("person: ") for line in _lines(_material(text, "conversation"), "person")
    ]
    facts = [line for line in said if _is_fact(line)]
    picked = list(dict.fromkeys(clip(line, LINE_LENGTH) for line in facts))[-MOST_NOTES:]
    return "\n".join(f"- {line}" for line in picked) or "NOTHING"


def record_of(text: str) -> str:
    """A summary by picking: names first, then what is open, what was decided, what was said last."""
    target = _target(text)
    record, before = _material(text, "conversation"), _material(text, "summary")
    asked = text.split("<<<", 1)[0]
    lines = ["The demo provider is not a model; these lines are picked from the conversation."]
    names = _joined(_names(asked.split("Keep word for word: ")[-1]), _names(record), _names(before))
    room = target - estimate_tokens(lines[0])
    lines += _fill([_named(names, room // 3)] if names else [], room)
    room = target - sum(estimate_tokens(line) + 1 for line in lines)
    chosen = [
        *_open(record),
        *_newest(record, _is_fact),
        *_newest(before, bool),
        *_newest(record, bool),
    ]
    return "\n".join(
        [*lines, *_fill(dict.fromkeys(f"- {clip(one, LINE_LENGTH)}" for one in chosen), room)]
    )


def is_record_request(text: str) -> bool:
    return bool(_BETWEEN.search(text))


def _target(text: str) -> int:
    found = _TARGET.search(text)
    return int(found[1]) if found else USUAL_TOKENS


def _material(text: str, name: str) -> str:
    return "\n".join(m[3] for m in _BETWEEN.finditer(text) if m[2].startswith(name))


def _lines(record: str, speaker: str) -> Iterator[str]:
    """The paragraphs of one speaker."""
    for paragraph in record.split("\n\n"):
        if paragraph.startswith(f"{speaker}: "):
            yield " ".join(paragraph.split())


def _is_fact(line: str) -> bool:
    words = _SPEAKER.sub("", line)
    return bool(_NAME.search(words) or _WEIGHTY.search(words)) and not words.endswith("?")


def _newest(record: str, is_wanted: Callable[[str], object]) -> list[str]:
    lines = [" ".join(line.split()) for line in record.split("\n") if line.strip()]
    return [line.removeprefix("- ") for line in reversed(lines) if is_wanted(line)]


def _open(record: str) -> list[str]:
    """What was asked and not answered, the last question of the agent included."""
    pending: list[str] = []
    for paragraph in record.split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("person: "):
            pending.append(line)
        elif line.startswith("agent: "):
            pending = [clip(line, LINE_LENGTH), line[-LINE_LENGTH:]] if line.endswith("?") else []
    return pending


def _names(text: str) -> list[str]:
    return [name.rstrip(".,:;") for name in reversed(_NAME.findall(text))]


def _joined(*lists: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def _named(names: Iterable[str], tokens: int) -> str:
    kept: list[str] = []
    for name in names:
        if estimate_tokens(", ".join([*kept, name])) > tokens:
            break
        kept.append(name)
    return f"Names: {', '.join(kept)}"


def _fill(lines: Iterable[str], tokens: int) -> list[str]:
    """As many as there is room for."""
    kept: list[str] = []
    for line in lines:
        tokens -= estimate_tokens(line) + 1
        if tokens < 0:
            break
        kept.append(line)
    return kept
