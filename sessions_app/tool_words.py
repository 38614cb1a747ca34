"""Tools in plain words, as approvals, lines and tables name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools_app.grants import EVERY_CALL, covers
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
    Effect.AGENTS: "changes an agent",
}
SUBJECT_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class Words:
    """How one tool is spoken of."""

    title: str
    #: The argument that matters.
    subject: str
    effects: str
    #: What a yes for the whole session would cover.
    covers: str = EVERY_CALL


def words_of(name: str) -> Words:
    tool = registry.get(name)
    if tool is None:
        return Words(
            title=name.replace("_", " ").replace(":", " ").capitalize(), subject="", effects=""
        )
    said = [words for effect, words in EFFECTS.items() if effect in tool.effects]
    effects = f"It {' and '.join(said)}." if said else ""
    return Words(
        title=tool.title or name, subject=tool.subject, effects=effects, covers=covers(tool)
    )


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
