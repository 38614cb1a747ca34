"""The one writer of documents. Every text becomes a version; a stale writer is told the newer one."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from agents.inputs import is_storable
from config.faults import Invalid, MemoryConflict, MemoryTooLarge
from memory.embedding import hold_choice
from memory.index import index_entry
from memory.models import MemoryEntry, MemoryVersion
from memory.owner import Author, Owner
from memory.paths import MAIN, checked_path

MOST_BYTES = 100_000
#: As `expected_hash`: the document must not be there yet.
ABSENT = ""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What is said of a document beside its text. None leaves it as it is."""

    pinned: bool | None = None
    never_recall: bool | None = None
    trust: MemoryEntry.Trust | None = None


def hash_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def checked_content(content: str) -> str:
    if not is_storable(content):
        raise Invalid("A document cannot hold the character NUL or half of a surrogate pair.")
    size = len(content.encode())
    if size > MOST_BYTES:
        raise MemoryTooLarge(
            f"This document has {size:,} bytes; the most is {MOST_BYTES:,}. Split it into several."
        )
    return content


def write_entry(
    *,
    owner: Owner,
    path: str,
    content: str,
    author: Author,
    expected_hash: str | None = None,
    marks: Marks | None = None,
) -> MemoryEntry:
    """Write the document at this path, making it when it is not there.

    `expected_hash` is what the writer has seen: of two writers who saw the same text, one wins
    and the other is told the newer version. `ABSENT` means that nothing was there.
    """
    path, content = checked_path(path), checked_content(content)
    with transaction.atomic():
        entry = _find(owner, path) or _create(owner, path, author)
        before = shape_of(entry)
        if expected_hash is not None:
            check_hash(entry, expected_hash)
        set_marks(entry, marks or Marks(), author=author)
        if entry.current_id is None or hash_of(content) != entry.hash:
            add_version(entry, content, author)
        _save(entry)
        if shape_of(entry) != before:
            index_entry(entry, content)
    return entry


def check_hash(entry: MemoryEntry, expected: str) -> None:
    """Refuse to build on another text than the newest. The caller holds the entry's row."""
    if (ABSENT if entry.current_id is None else entry.hash) == expected:
        return
    if entry.current is None:
        raise MemoryConflict("This document is not there any more.")
    raise MemoryConflict(
        newer={
            "id": str(entry.pk),
            "path": entry.path,
            "version": entry.current.number,
            "hash": entry.hash,
            "content": entry.current.content,
        }
    )


def locked(entry: MemoryEntry) -> MemoryEntry:
    """The row as it is now, held until the transaction's end."""
    hold_choice(entry.workspace_id)
    return MemoryEntry.objects.select_for_update(no_key=True).get(pk=entry.pk)


def shape_of(entry: MemoryEntry) -> tuple[object, ...]:
    """What the chunks of a document are made from: while it is the same, they stay."""
    return entry.current_id, entry.hash, entry.path, entry.never_recall, entry.deleted_at


def add_version(entry: MemoryEntry, content: str, author: Author) -> MemoryVersion:
    """The next version of a document whose row the caller holds. It is as trusted as the document."""
    last = entry.versions.order_by("-number").values_list("number", flat=True).first() or 0
    version = MemoryVersion.objects.create(
        entry=entry,
        workspace_id=entry.workspace_id,
        number=last + 1,
        content=content,
        hash=hash_of(content),
        bytes=len(content.encode()),
        trust=entry.trust,
        **author.columns,
    )
    entry.current, entry.hash = version, version.hash
    return version


def set_marks(entry: MemoryEntry, marks: Marks, *, author: Author) -> None:
    """Only a person makes trusted what was not: no program promotes what came from outside."""
    if marks.pinned is not None:
        entry.pinned = marks.pinned
    if marks.never_recall is not None:
        entry.never_recall = marks.never_recall
    promoted = marks.trust == MemoryEntry.Trust.TRUSTED
    if marks.trust and (not promoted or author.kind == MemoryVersion.Author.PERSON):
        entry.trust = marks.trust


def _find(owner: Owner, path: str) -> MemoryEntry | None:
    hold_choice(owner.workspace_id)
    rows = MemoryEntry.objects.select_for_update(no_key=True).kept()
    return rows.filter(workspace_id=owner.workspace_id, owner_id=owner.owner_id, path=path).first()


def _create(owner: Owner, path: str, author: Author) -> MemoryEntry:
    """A new row, or the one that somebody else has made in the same moment."""
    by_heart = path == MAIN and owner.scope == MemoryEntry.Scope.AGENT
    try:
        with transaction.atomic():
            return MemoryEntry.objects.create(
                path=path, pinned=by_heart, created_by_id=author.user_id, **owner.columns
            )
    except IntegrityError:
        entry = _find(owner, path)
        if entry is None:
            raise
        return entry


def _save(entry: MemoryEntry) -> None:
    entry.updated_at = Now()
    entry.save(update_fields=["current", "hash", "pinned", "never_recall", "trust", "updated_at"])
    entry.refresh_from_db(fields=["updated_at"])
