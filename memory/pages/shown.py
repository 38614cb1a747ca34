"""A document, its past and its hits in words, as the memory pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from memory.models import MemoryEntry, MemoryVersion
from memory.pages.tree import names_of
from memory.recall import Hit
from tenants.pages.rail import url_of

MOST_VERSIONS = 50
#: The parts of a score in the order of the bar, with what a person calls them.
PARTS = {
    "text": "words",
    "meaning": "meaning",
    "neighbours": "around it",
    "named": "speaker",
    "recency": "recency",
    "pin": "pin",
}


@dataclass(frozen=True, kw_only=True)
class Past:
    """One version, in words."""

    number: int
    who: str
    created_at: datetime
    bytes: int
    is_current: bool
    is_redacted: bool
    session_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One part of a score: where it stands in the bar, in percent of the best hit's score."""

    name: str
    words: str
    value: float
    start: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Found:
    """One hit with its bar."""

    hit: Hit
    slices: list[Slice]
    owner: str

    @property
    def told(self) -> str:
        """The bar for those who do not see it."""
        return ", ".join(f"{one.words} {one.value:.2f}" for one in self.slices)


def past_of(entry: MemoryEntry) -> list[Past]:
    """The newest versions first."""
    rows = entry.versions.select_related("created_by").defer("content")[:MOST_VERSIONS]
    return [past(version, entry) for version in rows]


def past(version: MemoryVersion, entry: MemoryEntry) -> Past:
    return Past(
        number=version.number,
        who=who_wrote(version),
        created_at=version.created_at,
        bytes=version.bytes,
        is_current=version.pk == entry.current_id,
        is_redacted=version.redacted_at is not None,
        session_url=_session_url(version.session_id),
    )


def who_wrote(version: MemoryVersion) -> str:
    """A name, or the tool's."""
    name = version.created_by.display_name if version.created_by else ""
    match version.author:
        case MemoryVersion.Author.TOOL:
            return f"Agent, by {version.tool}" if version.tool else "Agent"
        case MemoryVersion.Author.IMPORT:
            return f"Import by {name}" if name else "Import"
        case MemoryVersion.Author.RUNTIME:
            return "Switchyard"
        case _:
            return name or "A person"


def _session_url(session_id: UUID | None) -> str:
    """Where the words were said. The chat is to the right of this app, so by the name of its page."""
    return reverse("chat_session", args=[session_id]) if session_id and url_of("chat") else ""


def owner_name(entry: MemoryEntry) -> str:
    return names_of({entry.owner_id: (entry.scope, 1)}).get(entry.owner_id, "Gone")


def found_with(hits: Sequence[Hit]) -> list[Found]:
    """Every hit with the bar of its score, all on the scale of the best one.

    Short chunks are shown with what is beside them: neighbours that would read the same are one.
    """
    told: dict[tuple[UUID, str], Hit] = {}
    for hit in hits:
        told.setdefault((hit.entry_id, hit.excerpt), hit)
    hits = list(told.values())
    entries = MemoryEntry.objects.filter(pk__in=[hit.entry_id for hit in hits])
    of = {entry.pk: entry for entry in entries.only("pk", "owner_id", "scope")}
    names = names_of({one.owner_id: (one.scope, 1) for one in of.values()})
    best = max((hit.score for hit in hits), default=0) or 1
    return [
        Found(
            hit=hit,
            slices=slices(hit, best),
            owner=names.get(of[hit.entry_id].owner_id, "") if hit.entry_id in of else "",
        )
        for hit in hits
    ]


def slices(hit: Hit, best: float) -> list[Slice]:
    made: list[Slice] = []
    at = 0.0
    for name, words in PARTS.items():
        value = hit.parts.get(name, 0.0)
        width = round(100 * value / best, 2)
        if width > 0:
            made.append(Slice(name=name, words=words, value=value, start=round(at, 2), width=width))
        at += width
    return made
