"""What happens to a document after it was written: change, delete, restore, redact."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from config.faults import Conflict, Invalid, NotFound
from memory.index import index_entry
from memory.models import MemoryChunk, MemoryEntry, MemoryVersion
from memory.owner import Author
from memory.paths import MAIN, checked_path
from memory.reader import Reader
from memory.writing import (
    Marks,
    add_version,
    check_hash,
    checked_content,
    hash_of,
    locked,
    set_marks,
    shape_of,
)


def find_by_path(reader: Reader, path: str) -> MemoryEntry:
    """The document at this path, from the narrowest of the reader's memories that has it."""
    rows = MemoryEntry.objects.seen_by(reader).kept().filter(path=checked_path(path))
    found = sorted(
        rows.select_related("current"),
        key=lambda one: (
            reader.owner_ids.index(one.owner_id) if one.owner_id in reader.owner_ids else -1
        ),
    )
    if not found:
        raise NotFound(f"There is no document {path!r} in this memory.")
    return found[-1]


def content_of(entry: MemoryEntry) -> str:
    return entry.current.content if entry.current else ""


@transaction.atomic
def change_entry(
    entry: MemoryEntry,
    *,
    author: Author,
    content: str | None = None,
    path: str | None = None,
    marks: Marks | None = None,
    expected_hash: str | None = None,
) -> MemoryEntry:
    """Change what is given. A text makes a version; a path or a mark does not."""
    row = locked(entry)
    if row.deleted_at:
        raise NotFound
    if expected_hash is not None:
        check_hash(row, expected_hash)
    before = shape_of(row)
    set_marks(row, marks or Marks(), author=author)
    if content is not None and hash_of(checked_content(content)) != row.hash:
        add_version(row, content, author)
    row.path = row.path if path is None else checked_path(path)
    return _store(row, before)


@transaction.atomic
def delete_entry(entry: MemoryEntry, *, expected_hash: str | None = None) -> None:
    """Put it away: nothing finds it, its path is free, and its versions can be restored."""
    row = locked(entry)
    if row.deleted_at:
        raise NotFound
    if expected_hash is not None:
        check_hash(row, expected_hash)
    MemoryChunk.objects.filter(entry=row).delete()
    MemoryEntry.objects.filter(pk=row.pk).update(deleted_at=Now())


@transaction.atomic
def restore_version(
    entry: MemoryEntry, number: int, *, author: Author, expected_hash: str | None = None
) -> MemoryEntry:
    """Write an earlier text again, as the newest version. Brings back a deleted document."""
    row = locked(entry)
    if expected_hash is not None:
        check_hash(row, expected_hash)
    old = row.versions.filter(number=number).first()
    if old is None:
        raise NotFound(f"There is no version {number}.")
    if old.redacted_at:
        raise Conflict(f"Version {number} was redacted: its text is gone.")
    before = shape_of(row)
    if old.hash != row.hash:
        # A text keeps the trust that it was written with; the newest one, what people said of it.
        set_marks(row, Marks(trust=MemoryEntry.Trust(old.trust)), author=author)
        add_version(row, old.content, author)
    row.deleted_at = None
    return _store(row, before)


@transaction.atomic
def redact(
    entry: MemoryEntry,
    *,
    by: UUID | None,
    number: int | None = None,
    expected_hash: str | None = None,
) -> MemoryEntry:
    """Take the text out of one version, or of all, for good. Who wrote when stays on record."""
    row = locked(entry)
    if expected_hash is not None:
        check_hash(row, expected_hash)
    versions: QuerySet[MemoryVersion] = row.versions.filter(redacted_at=None)
    if number is not None:
        if not row.versions.filter(number=number).exists():
            raise NotFound(f"There is no version {number}.")
        versions = versions.filter(number=number)
    touches_newest = row.current_id in set(versions.values_list("pk", flat=True))
    versions.update(content="", hash="", redacted_at=Now(), redacted_by_id=by)
    if not touches_newest:
        return row
    row = MemoryEntry.objects.select_related("current").get(pk=row.pk)
    before, row.hash = shape_of(row), hash_of("")
    return _store(row, before)


def _store(row: MemoryEntry, before: tuple[object, ...]) -> MemoryEntry:
    """Save a row that the caller holds, and bring its chunks in step if they must change."""
    row.updated_at = Now()
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise Conflict(f"There is another document at {row.path!r}.") from None
    row.refresh_from_db(fields=["updated_at"])
    if shape_of(row) != before:
        index_entry(row, content_of(row))
    return row


def pinned_entries(reader: Reader) -> list[MemoryEntry]:
    """What the reader is to have in mind at every turn: what it knows by heart, then by path."""
    rows = MemoryEntry.objects.seen_by(reader).kept().filter(pinned=True, never_recall=False)
    rows = rows.filter(current__isnull=False)
    found = rows.select_related("current").order_by("path", "pk")
    return sorted(found, key=lambda one: one.path != MAIN)


def version_of(entry: MemoryEntry, number: int) -> MemoryVersion:
    found = entry.versions.filter(number=number).first()
    if found is None:
        raise NotFound(f"There is no version {number}.")
    return found


def whole_number(value: object, name: str) -> int:
    """A version's number out of a body."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise Invalid(f"{name} is a version's number.")
    return value
