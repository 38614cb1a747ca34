"""Tools and numbers in plain words, as lines, approvals and tables say them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools_app.registry import Effect, registry

#: What a call may do, in the order in which it is said.
EFFECTS = {
    Effect.COMMANDS: "runs in this session's sandbox",
    Effect.FILES: "may change the session's files",
    Effect.NETWORK: "reaches the network",
    Effect.PEOPLE: "is seen by people",
    Effect.MEMORY: "changes what is remembered",
    Effect.SESSIONS: "starts or changes other sessions",
    Effect.CANVAS: "changes the agent's canvas",
}
SUBJECT_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class Words:
    """How one tool is spoken of."""

    title: str
    #: The argument that matters.
    subject: str
    effects: str


def words_of(name: str) -> Words:
    tool = registry.get(name)
    if tool is None:
        return Words(
            title=name.replace("_", " ").replace(":", " ").capitalize(), subject="", effects=""
        )
    said = [words for effect, words in EFFECTS.items() if effect in tool.effects]
    effects = f"It {' and '.join(said)}." if said else ""
    return Words(title=tool.title or name, subject=tool.subject, effects=effects)


def all_words() -> dict[str, dict[str, str]]:
    """Of every known tool, by name."""
    return {name: asdict(words_of(name)) for name in registry}


def subject_of(name: str, arguments: Mapping[str, Any]) -> str:
    """The one argument that matters, on one line."""
    value = arguments.get(words_of(name).subject)
    if value is None:
        value = next((one for one in arguments.values() if isinstance(one, str)), "")
    line = " ".join(str(value).split())
    return line if len(line) <= SUBJECT_LENGTH else f"{line[: SUBJECT_LENGTH - 1]}…"


def duration(milliseconds: int | None) -> str:
    """A span of time with its unit: `340 ms`, `1.2 s`, `2 min 5 s`."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def thousands(count: int) -> str:
    """A count as one reads it: `812`, `9.4k`, `61k`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 10_000 else f"{count / 1000:.0f}k"
