"""Splits an agent's documents into notes, and finds notes that repeat each other or share a subject.

A note is one item of a list of facts, or a whole short document. What is found here needs no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from hashlib import sha256
from uuid import UUID

from memory.chunking import SourceLine, is_list, lines_of
from memory.documents import MAIN, content_of
from memory.embeddings import chosen_embedder, is_local
from memory.models import MemoryEntry, MemoryVector, MemoryVersion

#: A document that is no list is a note if it is at most this long.
LONGEST_NOTE = 1_500
#: The most notes that are compared with each other, newest first.
MOST_NOTES = 3_000
#: Versions of one document that are read to learn when each of its lines was written.
MOST_VERSIONS = 100

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
#: What may stand before the date that a note begins with.
_LEADING = re.compile(r"^[\W_]+")
#: Words without which a sentence says the same. No word that negates, limits or dates belongs here.
_WEAK = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "also",
        "just",
        "really",
        "very",
        "please",
        "note",
        "remember",
    ]
)
#: Words of paths and headings that are no subject.
_GENERIC = frozenset(
    [
        "daily",
        "learnings",
        "learning",
        "memory",
        "notes",
        "note",
        "log",
        "logs",
        "facts",
        "misc",
        "general",
        "todo",
        "md",
    ]
)
#: A document of so many words says by itself what it is about.
SPEAKS_FOR_ITSELF = 12


@dataclass(frozen=True, kw_only=True)
class Note:
    """One fact, and where it stands."""

    #: Its number among the notes that were read together.
    number: int
    entry_id: UUID
    path: str
    hash: str
    text: str
    #: Its lines in the document, from 1, both included.
    first: int
    last: int
    headings: tuple[str, ...]
    trusted: bool
    pinned: bool
    #: Whether it is the whole document.
    whole: bool
    written: datetime

    @property
    def key(self) -> str:
        """Return what two notes share that say the same in the same words."""
        return " ".join(_stem(word) for word in words_of(self.text) if word not in _WEAK)

    @property
    def subject(self) -> frozenset[str]:
        """Return the words of its path and headings that may say what it is about."""
        found = words_of(" ".join([self.path, *self.headings]).replace("_", " "))
        return frozenset(_stem(one) for one in found if one not in _GENERIC and one.isalpha())

    @property
    def is_main(self) -> bool:
        return self.path == MAIN


def words_of(text: str) -> list[str]:
    return [found.lower().replace("\u2019", "'") for found in _WORD.findall(text)]


def _stem(word: str) -> str:
    """Return the word without a plural s; all else may change what a sentence says."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


# ── Reading ──────────────────────────────────────────────────────────────────


def read_notes(entries: Sequence[MemoryEntry]) -> list[Note]:
    """Return the notes of these documents, of which the newest are kept if there are too many."""
    found = [note for entry in entries for note in notes_of(entry)]
    oldest_kept = sorted((note.written for note in found), reverse=True)[:MOST_NOTES][-1:]
    kept = [note for note in found if note.written >= oldest_kept[0]][:MOST_NOTES]
    return [replace(note, number=number) for number, note in enumerate(kept, 1)]


def notes_of(entry: MemoryEntry) -> Iterator[Note]:
    """Yield the items of a list, or the whole of another short document."""
    content = content_of(entry)
    lines = list(lines_of(content))
    if is_list(lines):
        spans = list(_items(lines))
        written = _line_dates(entry) if len(spans) > 1 else {}
        for first, last, item in spans:
            text = "\n".join(content.splitlines()[first - 1 : last]).strip()
            yield _note(entry, text, first, last, item.headings, written)
    elif 0 < len(content.strip()) <= LONGEST_NOTE:
        headings = tuple(dict.fromkeys(one for line in lines for one in line.headings))
        yield _note(entry, content.strip(), 1, len(content.splitlines()), headings, {}, whole=True)


def _items(lines: Sequence[SourceLine]) -> Iterator[tuple[int, int, SourceLine]]:
    """Yield the first and the last line of each item. Turns of a transcript are no notes."""
    first: SourceLine | None = None
    last = 0
    for line in lines:
        if first and (line.starts_item or not line.in_item):
            yield first.number, last, first
            first = None
        if line.starts_item and not (line.speaker and line.text.lstrip()[:1] not in "-*+"):
            first = line
        if first and line.text.strip():
            last = line.number
    if first:
        yield first.number, last, first


def _note(
    entry: MemoryEntry,
    text: str,
    first: int,
    last: int,
    headings: tuple[str, ...],
    written: Mapping[str, datetime],
    *,
    whole: bool = False,
) -> Note:
    since = entry.current.created_at if entry.current else entry.updated_at
    return Note(
        number=0,
        entry_id=entry.pk,
        path=entry.path,
        hash=entry.hash,
        text=text,
        first=first,
        last=last,
        headings=headings,
        trusted=entry.trust == MemoryEntry.Trust.TRUSTED,
        pinned=entry.pinned,
        whole=whole,
        written=stated_date(text, entry.path, headings) or written.get(text, since),
    )


def stated_date(text: str, path: str, headings: Sequence[str]) -> datetime | None:
    """Return the day that a note begins with, or that the heading above it or its path names."""
    places = (_LEADING.sub("", text)[:10], *reversed(headings), path)
    for found in filter(None, map(_DATE.search, places)):
        try:
            day = date(*map(int, found.groups()))
        except ValueError:
            continue
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    return None


def _line_dates(entry: MemoryEntry) -> dict[str, datetime]:
    """Return when each item of a document was written: the date of the first version that has it."""
    versions = MemoryVersion.objects.filter(entry=entry, redacted_at=None).order_by("-number")
    newest = list(versions.values_list("created_at", "content")[:MOST_VERSIONS])
    dates: dict[str, datetime] = {}
    for created_at, content in newest:
        rows = content.splitlines()
        for first, last, _ in _items(list(lines_of(content))):
            dates["\n".join(rows[first - 1 : last]).strip()] = created_at
    return dates


# ── Duplicates ───────────────────────────────────────────────────────────────


def duplicates(notes: Iterable[Note]) -> list[list[Note]]:
    """Return the groups of notes that say the same in the same words, the one to keep first.

    Notes of different subjects are none, although their words are equal: `prefers tea` below Alice
    and below Bob are two facts.
    """
    by_key: dict[str, list[Note]] = {}
    for note in notes:
        if note.key:
            by_key.setdefault(note.key, []).append(note)
    groups = []
    for same in by_key.values():
        left = sorted(same, key=precedence)
        while left:
            kept, *others = left
            group = [one for one in others if _one_subject(kept, one)]
            if group:
                groups.append([kept, *group])
            left = [one for one in others if one not in group]
    return groups


def precedence(note: Note) -> tuple[object, ...]:
    """Sort the note that stays first: trusted, always shown, in a document of its own subject, new."""
    return (
        not note.trusted,
        not note.is_main,
        not note.pinned,
        note.path.startswith("daily/"),
        -note.written.timestamp(),
        note.path,
        note.first,
    )


def _one_subject(one: Note, other: Note) -> bool:
    """Return whether what is written around two equal notes names no other subject."""
    said = {_stem(word) for word in words_of(one.text)}
    if one.whole and other.whole and len(said) >= SPEAKS_FOR_ITSELF:
        return True
    return all(any(word[:4] == known[:4] for known in said) for word in one.subject ^ other.subject)


# ── Groups for a model ───────────────────────────────────────────────────────

#: How similar two notes must be for a model to compare them, how many such neighbours each note has,
#: and how many notes a model compares at once.
LEAST_SIMILAR = 0.45
NEIGHBOURS = 4
LARGEST_GROUP = 12


def related(workspace_id: UUID, notes: Sequence[Note]) -> list[list[Note]]:
    """Return groups of similar notes of equal trust, each sorted by date.

    Untrusted notes are judged apart: their text must not decide what becomes of trusted ones.
    """
    groups = []
    for trusted in (True, False):
        alike = [note for note in notes if note.trusted == trusted]
        vectors = _vectors(workspace_id, alike)
        known = [note for note in alike if note.number in vectors]
        groups += _grouped(known, [vectors[note.number] for note in known])
    return groups


def _vectors(workspace_id: UUID, notes: Sequence[Note]) -> dict[int, Sequence[float]]:
    """Return the notes' vectors: the stored ones, and those that a local model adds."""
    embedder = chosen_embedder(workspace_id)
    rows = MemoryVector.objects.for_workspace(workspace_id).filter(model=embedder.name)
    rows = rows.filter(chunk__entry__in={note.entry_id for note in notes})
    stored = {
        (entry_id, text): vector
        for entry_id, text, vector in rows.values_list(
            "chunk__entry_id", "chunk__text", "vector"
        ).iterator(chunk_size=500)
    }
    found = {
        note.number: stored[note.entry_id, note.text]
        for note in notes
        if (note.entry_id, note.text) in stored
    }
    missing = [note for note in notes if note.number not in found]
    if missing and is_local(embedder):
        vectors = embedder.embed([note.text for note in missing])
        found |= {note.number: vector for note, vector in zip(missing, vectors, strict=True)}
    return found


def _grouped(notes: Sequence[Note], vectors: Sequence[Sequence[float]]) -> list[list[Note]]:
    """Join notes with their nearest neighbours, the most similar first, up to the largest group."""
    group_of = {note.number: [note] for note in notes}
    for _, one, other in sorted(_pairs(notes, vectors), key=lambda pair: -pair[0]):
        first, second = group_of[one.number], group_of[other.number]
        if first is not second and len(first) + len(second) <= LARGEST_GROUP:
            first += second
            for note in second:
                group_of[note.number] = first
    unique = {id(group): group for group in group_of.values() if len(group) > 1}
    return [
        sorted(group, key=lambda note: (note.written, note.number)) for group in unique.values()
    ]


def _pairs(
    notes: Sequence[Note], vectors: Sequence[Sequence[float]]
) -> Iterator[tuple[float, Note, Note]]:
    """Yield each note with its nearest neighbours and how similar they are."""
    if len(notes) < 2:
        return
    import numpy as np

    given = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    matrix = given / np.where(lengths == 0, 1, lengths)
    for at, note in enumerate(notes):
        likeness = matrix @ matrix[at]
        likeness[at] = -1
        for nearest in np.argsort(-likeness)[:NEIGHBOURS]:
            if likeness[nearest] >= LEAST_SIMILAR:
                yield float(likeness[nearest]), note, notes[int(nearest)]


def digest(notes: Iterable[Note]) -> str:
    """Return a short hash of what these notes say and where, whatever else changes around them."""
    said = "\0".join(sorted(f"{note.path}\0{note.text}" for note in notes))
    return sha256(said.encode()).hexdigest()[:16]
