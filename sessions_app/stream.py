"""Tells viewers that a session's log grew, and what its answer and its tools say meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from config import live


@dataclass(frozen=True, kw_only=True)
class Delta:
    """New text of a running answer. `offset` counts code points from the answer's beginning."""

    session_id: UUID
    event_id: UUID
    run_id: UUID | None
    offset: int
    text: str


@dataclass(frozen=True, kw_only=True)
class OutputPiece:
    """New output of a running call. `offset` counts code points from the output's beginning."""

    session_id: UUID
    run_id: UUID | None
    tool_use_id: str
    name: str
    offset: int
    text: str


def group_name(session_id: UUID) -> str:
    return f"session.{session_id}"


def ring(session_id: UUID) -> None:
    """Say that the log grew; viewers read it themselves. Inside a transaction, with its commit."""
    live.send(group_name(session_id), {"type": "log.grew"})


def send_deltas(deltas: Sequence[Delta]) -> None:
    """Send new text of several answers, in one statement."""
    live.send_many([(group_name(delta.session_id), _message(delta)) for delta in deltas])


def send_outputs(pieces: Sequence[OutputPiece]) -> None:
    """Send new output of several calls, in one statement."""
    live.send_many(
        [
            (
                group_name(piece.session_id),
                {
                    "type": "output",
                    "session_id": str(piece.session_id),
                    "run_id": piece.run_id and str(piece.run_id),
                    "tool_use_id": piece.tool_use_id,
                    "name": piece.name,
                    "offset": piece.offset,
                    "text": piece.text,
                },
            )
            for piece in pieces
        ]
    )


def _message(delta: Delta) -> dict[str, Any]:
    return {
        "type": "delta",
        "event_id": str(delta.event_id),
        "run_id": delta.run_id and str(delta.run_id),
        "offset": delta.offset,
        "text": delta.text,
    }
