"""Plain names and descriptions of tools, for approvals, transcripts and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.text import reveal
from tools_app.policy.rules import EVERY_CALL, covers
from tools_app.registry import Effect, registry

#: What a call may do, in the order of display.
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
ARGUMENT_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class ToolLabel:
    """How one tool is shown to people."""

    title: str
    #: The name of the argument that matters most.
    subject: str
    effects: str
    #: What an allow for the whole session would cover.
    covers: str = EVERY_CALL


def tool_label(name: str) -> ToolLabel:
    """Return the label of a tool, even of one that does not exist any more."""
    tool = registry.get(name)
    if tool is None:
        return ToolLabel(
            title=reveal(name.replace("_", " ").replace(":", " ").capitalize()),
            subject="",
            effects="",
        )
    parts = [text for effect, text in EFFECTS.items() if effect in tool.effects]
    effects = f"It {' and '.join(parts)}." if parts else ""
    return ToolLabel(
        title=reveal(tool.title or name),
        subject=tool.subject,
        effects=effects,
        covers=reveal(covers(tool)),
    )


def main_argument(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the argument that matters most, on one line."""
    value = arguments.get(tool_label(name).subject)
    if value is None:
        value = next((v for v in arguments.values() if isinstance(v, str)), "")
    line = reveal(" ".join(str(value).split()))
    return line if len(line) <= ARGUMENT_LENGTH else f"{line[: ARGUMENT_LENGTH - 1]}…"
