"""Notes: what the model is told beside the newest message, such as recalled memory.

A note becomes an event of the log, in the commit of the answer that it led to. Later requests repeat
it where it stood, so they begin with the bytes of earlier ones and the provider's cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agents.providers.base import ASIDE, ASIDE_END
from sessions_app.log.writer import NewEvent
from sessions_app.models import SessionEvent
from tenants.vault import seal, unseal

if TYPE_CHECKING:
    from sessions_app.context.conversation import LogEntry

EventType = SessionEvent.Type
RECALLED = "## From memory, as it may bear on this message"
PERSONAL = "## From this person's own memory"
FAILED = "## Attached resources that could not be prepared"


@dataclass(frozen=True, kw_only=True)
class Note:
    """The parts of a note, each as text for the model. Empty if there is nothing to tell."""

    failures: str = ""
    recalled: str = ""
    #: From memory that only the speaker may read. The log holds it encrypted.
    personal: str = ""
    speaker_id: UUID | None = None
    #: The paths of the recalled documents that every member may read.
    paths: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the whole note as the speaker's model sees it."""
        return note_text(self._shared, self._personal)

    @property
    def _shared(self) -> str:
        parts = ((FAILED, self.failures), (RECALLED, self.recalled))
        return "\n\n".join(f"{head}\n\n{text}" for head, text in parts if text)

    @property
    def _personal(self) -> str:
        return f"{PERSONAL}\n\n{self.personal}" if self.personal else ""

    def event(self) -> NewEvent:
        payload: dict[str, Any] = {"text": self._shared, "documents": list(self.paths)}
        if self.personal:
            payload["sealed"] = {"user_id": str(self.speaker_id), "text": seal(self._personal)}
        return NewEvent(type=EventType.CONTEXT_NOTED, payload=payload)


def note_text(shared: str, personal: str) -> str:
    """Return a note as it stands after a person's message."""
    told = "\n\n".join(part for part in (shared, personal) if part)
    return f"{ASIDE}\n{told}\n{ASIDE_END}" if told else ""


def read_note(payload: dict[str, Any], speaker_id: UUID | None) -> str:
    """Return the text of a stored note, with its personal part if it belongs to the speaker."""
    sealed = payload.get("sealed") or {}
    is_own = speaker_id is not None and sealed.get("user_id") == str(speaker_id)
    personal = unseal(str(sealed.get("text"))) if is_own else ""
    return note_text(str(payload.get("text") or ""), personal or "")


def is_noted(entries: Sequence[LogEntry]) -> bool:
    """Return whether the newest message has its note already: the run was resumed after it."""
    for entry in reversed(entries):
        if entry.type == EventType.CONTEXT_NOTED:
            return True
        if entry.type == EventType.USER_MESSAGE and entry.taken:
            return False
    return False


def earlier_notes(entries: Sequence[LogEntry], speaker_id: UUID | None) -> Iterator[str]:
    """Yield the texts of the notes among these entries."""
    for entry in entries:
        if entry.type == EventType.CONTEXT_NOTED:
            yield read_note(entry.payload, speaker_id)
