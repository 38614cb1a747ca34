"""A line of a conversation, and messages in their newest wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sessions_app.models import SessionEvent

E = SessionEvent.Type


@dataclass(frozen=True, kw_only=True)
class Line:
    """An event as the view needs it."""

    seq: int
    type: str
    payload: dict[str, Any]
    #: Of a message: whether a run took it. One that waits, or was taken back, is told to nobody.
    taken: bool
    run_id: UUID | None


def is_told(line: Line) -> bool:
    return line.taken or line.type != E.USER_MESSAGE


def reworded(lines: Sequence[Line]) -> list[Line]:
    """The same lines, each message as it was last reworded."""
    edits = {l.payload.get("seq"): l.payload for l in lines if l.type == E.USER_MESSAGE_EDITED}
    return [
        replace(line, payload={**line.payload, "text": edits[line.seq].get("text", "")})
        if line.type == E.USER_MESSAGE and line.seq in edits
        else line
        for line in lines
    ]
