"""Finds the memories for a prompt: pinned documents, and what memory holds on the newest message."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import DatabaseError

from agents.providers.base import estimate_tokens
from core.exceptions import Fault
from memory.documents import content_of, pinned_entries
from memory.models import MemoryEntry
from memory.ownership import Reader
from memory.recall import LONGEST_QUERY, Hit, Search, recall
from sessions_app.context.conversation import LogEntry, apply_edits
from sessions_app.context.inputs import PromptInputs
from sessions_app.models import SessionEvent
from tools_app.skills import prompt_lines
from tools_app.taint import clip_for_model, fence

log = structlog.get_logger(__name__)

MAX_HITS = 6
#: How strong a match must be to be shown although the model did not search for it.
MIN_STRENGTH = 0.15
CHARACTERS_PER_TOKEN = 3
#: The length of the list of pins that do not fit.
UNSHOWN_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One document or excerpt to show to the model."""

    entry_id: UUID
    path: str
    text: str
    trusted: bool


@dataclass(frozen=True, kw_only=True)
class Memories:
    """The memories of a prompt, looked up once per run."""

    pinned: tuple[Memory, ...] = ()
    recalled: tuple[Memory, ...] = ()

    @property
    def has_untrusted(self) -> bool:
        return any(not memory.trusted for memory in (*self.pinned, *self.recalled))


def find_memories(inputs: PromptInputs, entries: list[LogEntry]) -> Memories:
    """Look up pinned documents and recall what fits the newest message.

    Return nothing, at no cost, for an agent without memory or without permission to search it.
    """
    basis = inputs.basis
    if not basis.has_memory or not inputs.may_recall:
        return Memories()
    reader = Reader(
        workspace_id=inputs.workspace_id,
        agent_id=inputs.agent_id,
        user_id=basis.speaker_id,
        session_id=inputs.session_id,
    )
    pinned = tuple(_pinned(entry) for entry in pinned_entries(reader))
    known = {memory.entry_id for memory in pinned}
    hits = [hit for hit in _recall(reader, newest_user_text(entries)) if hit.entry_id not in known]
    return Memories(pinned=pinned, recalled=tuple(_recalled(hit) for hit in hits))


def _recall(reader: Reader, query: str) -> list[Hit]:
    """Search memory. A search that fails must not keep the agent from answering."""
    if not query.strip():
        return []
    try:
        found = recall(reader, query[:LONGEST_QUERY], Search(limit=MAX_HITS))
    except (Fault, DatabaseError) as error:
        log.warning("recall_failed", why=str(error).strip())
        return []
    return [hit for hit in found if hit.strength >= MIN_STRENGTH]


def newest_user_text(entries: list[LogEntry]) -> str:
    """Return the newest message of a person, in its newest wording."""
    for entry in reversed(apply_edits(entries)):
        if entry.type == SessionEvent.Type.USER_MESSAGE and entry.taken:
            return str(entry.payload.get("text", ""))
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


def render_memories(
    memories: tuple[Memory, ...], mark: str, budget: int, *, are_pins: bool = False
) -> str:
    """Return as many memories as fit, as text for the model; the last one may be clipped.

    Pins that do not fit are named, because their authors rely on them.
    """
    pieces: list[str] = []
    left = budget
    for memory in memories:
        piece = _render(memory, mark, memory.text)
        if (cost := estimate_tokens(piece)) > left:
            text = clip_for_model(memory.text, left * CHARACTERS_PER_TOKEN // 2)
            piece = _render(memory, mark, text)
            cost = estimate_tokens(piece)
            if left < 60 or cost > left:
                break
        pieces.append(piece)
        left -= cost
    if are_pins and (rest := [memory.path for memory in memories[len(pieces) :]]):
        named = textwrap.shorten(", ".join(rest), UNSHOWN_CHARACTERS, placeholder=" …")
        pieces.append(f"(Also pinned, but there is no room; memory_get reads them: {named})")
    return "\n\n".join(pieces)


def _render(memory: Memory, mark: str, text: str) -> str:
    text = text.strip()
    body = text if memory.trusted else fence(text, mark, f"memory {memory.path}")
    return f"### {memory.path}\n{body}"


def skills_text(inputs: PromptInputs) -> str:
    """Return the list of the agent's skills, or nothing if it may not load any."""
    if "skill_load" not in inputs.tools:
        return ""
    return prompt_lines(inputs.workspace_id, inputs.agent_id).strip()
