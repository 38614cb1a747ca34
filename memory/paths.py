"""The paths of documents: what one may look like, and whose memory an agent means by it."""

from __future__ import annotations

import unicodedata
from datetime import date

from config.faults import Invalid
from memory.models.entry import LONGEST_PATH, MemoryEntry

#: What an agent knows by heart: pinned from its beginning, until a person takes the pin off.
MAIN = "MEMORY.md"
#: What an agent has learnt, for all its sessions.
LEARNINGS = "learnings/"
#: What is of use in this session only.
SESSION = "session/"
#: What the person that the session belongs to wants every agent to know.
USER = "user/"

FORBIDDEN = frozenset('\\:*?"<>|')


def daily_log(day: date) -> str:
    return f"daily/{day:%Y-%m-%d}.md"


def checked_path(path: str) -> str:
    """The path as it is stored, or a fault. Any path can be a file's name in an export."""
    path = unicodedata.normalize("NFC", path.strip())
    parts = path.split("/")
    if not path or len(path) > LONGEST_PATH:
        raise Invalid(f"A path has 1 to {LONGEST_PATH} characters.")
    if any(part in {"", ".", ".."} or part != part.strip() for part in parts):
        raise Invalid(
            "A path is like notes/office.md: names between single slashes, no dots alone."
        )
    if any(char in FORBIDDEN or not char.isprintable() for char in path):
        raise Invalid(
            'A path has none of the characters \\ : * ? " < > | and no control characters.'
        )
    if any(len(part.encode()) > 200 for part in parts):
        raise Invalid("Each name in a path has at most 200 bytes.")
    return path


def scope_meant_by(path: str) -> MemoryEntry.Scope:
    """Where a tool's document goes. Only people write for the whole workspace."""
    if path.startswith(SESSION):
        return MemoryEntry.Scope.SESSION
    if path.startswith(USER):
        return MemoryEntry.Scope.USER
    return MemoryEntry.Scope.AGENT
