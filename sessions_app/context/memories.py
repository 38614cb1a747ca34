"""What an agent is reminded of: pinned documents, and what its memory holds on the newest message."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import DatabaseError

from agents.providers.estimate import estimate_tokens
from config.faults import Fault
from memory.documents import content_of, pinned_entries
from memory.models import MemoryEntry
from memory.reader import Reader
from memory.recall import LONGEST_QUERY, Hit, Search, recall
from sessions_app.context.fencing import fenced
from sessions_app.context.subject import Subject
from sessions_app.models import SessionEvent
from sessions_app.wording import Line, reworded
from tools_app.clip import clip_for_model

log = structlog.get_logger(__name__)

MOST_HITS = 6
#: How well something must fit by itself to be shown without being asked for.
LEAST_STRENGTH = 0.15
CHARACTERS_PER_TOKEN = 3
#: How much is said of pins that do not fit.
NAMED_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One thing to be reminded of."""

    entry_id: UUID
    path: str
    text: str
    trusted: bool


@dataclass(frozen=True, kw_only=True)
class Memories:
    """Looked up once per run."""

    pinned: tuple[Memory, ...] = ()
    recalled: tuple[Memory, ...] = ()

    @property
    def has_untrusted(self) -> bool:
        return any(not one.trusted for one in (*self.pinned, *self.recalled))


def remind(subject: Subject, lines: list[Line]) -> Memories:
    """Nothing, at no cost, for an agent without memory or without leave to look into it."""
    ground = subject.ground
    if not ground.has_memory or not subject.may_recall:
        return Memories()
    reader = Reader(
        workspace_id=subject.workspace_id,
        agent_id=subject.agent_id,
        user_id=ground.speaker_id,
        session_id=subject.session_id,
    )
    pinned = tuple(_pinned(entry) for entry in pinned_entries(reader))
    known = {one.entry_id for one in pinned}
    hits = [hit for hit in _recall(reader, newest_text(lines)) if hit.entry_id not in known]
    return Memories(pinned=pinned, recalled=tuple(_recalled(hit) for hit in hits))


def _recall(reader: Reader, query: str) -> list[Hit]:
    """A search that fails must not keep the agent from answering."""
    if not query.strip():
        return []
    try:
        found = recall(reader, query[:LONGEST_QUERY], Search(limit=MOST_HITS))
    except (Fault, DatabaseError) as error:
        log.warning("recall_failed", why=str(error).strip())
        return []
    return [hit for hit in found if hit.strength >= LEAST_STRENGTH]


def newest_text(lines: list[Line]) -> str:
    """What a person said last, in its newest wording."""
    for line in reversed(reworded(lines)):
        if line.type == SessionEvent.Type.USER_MESSAGE and line.taken:
            return str(line.payload.get("text", ""))
    return ""


def _pinned(entry: MemoryEntry) -> Memory:
    return Memory(
        entry_id=entry.pk,
        path=entry.path,
        text=content_of(entry),
        trusted=entry.trust == MemoryEntry.Trust.TRUSTED,
    )


def _recalled(hit: Hit) -> Memory:
    return Memory(
        entry_id=hit.entry_id,
        path=f"{hit.path} ({hit.updated_at:%Y-%m-%d})",
        text=hit.excerpt,
        trusted=hit.trust == MemoryEntry.Trust.TRUSTED,
    )


def told(memories: tuple[Memory, ...], mark: str, budget: int, *, are_pins: bool = False) -> str:
    """As a model reads them, as many as fit; the last one that fits in part is clipped.

    Pins that do not fit are named: whoever wrote them counts on them.
    """
    pieces: list[str] = []
    left = budget
    for one in memories:
        piece = _piece(one, mark, one.text)
        if (cost := estimate_tokens(piece)) > left:
            piece = _piece(one, mark, clip_for_model(one.text, left * CHARACTERS_PER_TOKEN // 2))
            cost = estimate_tokens(piece)
            if left < 60 or cost > left:
                break
        pieces.append(piece)
        left -= cost
    if are_pins and (rest := [one.path for one in memories[len(pieces) :]]):
        named = textwrap.shorten(", ".join(rest), NAMED_CHARACTERS, placeholder=" …")
        pieces.append(f"(Also pinned, but there is no room; memory_get reads them: {named})")
    return "\n\n".join(pieces)


def _piece(one: Memory, mark: str, text: str) -> str:
    body = text.strip() if one.trusted else fenced(text.strip(), mark, f"memory {one.path}")
    return f"### {one.path}\n{body}"
