"""Writes, changes, deletes, restores and redacts documents."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Annotated, Literal
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from pydantic import StringConstraints

from core.exceptions import Conflict, Invalid, NotFound
from core.validation import STORABLE, Input, is_storable
from memory.embeddings import lock_choice
from memory.exceptions import MemoryConflict, MemoryTooLarge
from memory.index import index_entry
from memory.models import (
    LONGEST_PATH,
    Consolidation,
    ConsolidationChange,
    MemoryChunk,
    MemoryEntry,
    MemoryVersion,
)
from memory.ownership import Author, Owner, Reader
from tenants.quotas import check_database_room

#: Always shown to its agent: pinned when created, until a person unpins it.
MAIN = "MEMORY.md"
#: A list of things to look after, which a schedule reads before it sends anything.
HEARTBEAT = "HEARTBEAT.md"
#: What an agent has learnt, for all its sessions.
LEARNINGS = "learnings/"
#: Documents of one session.
SESSION = "session/"
#: Documents that a person wants every agent to know.
USER = "user/"

FORBIDDEN = frozenset('\\:*?"<>|')


def daily_log(day: date) -> str:
    return f"daily/{day:%Y-%m-%d}.md"


def checked_path(path: str) -> str:
    """Validate and normalise a path, so that it can be the name of a file in an export."""
    path = unicodedata.normalize("NFC", path.strip())
    parts = path.split("/")
    if not path or len(path) > LONGEST_PATH:
        raise Invalid(f"A path must have 1 to {LONGEST_PATH} characters.")
    if any(part in {"", ".", ".."} or part != part.strip() for part in parts):
        raise Invalid(
            "A path must be like notes/office.md: names between single slashes, without . or .."
        )
    if any(char in FORBIDDEN or not char.isprintable() for char in path):
        raise Invalid('A path cannot contain \\ : * ? " < > | or control characters.')
    if any(len(part.encode()) > 200 for part in parts):
        raise Invalid("Each name in a path can have at most 200 bytes.")
    return path


def scope_for_path(path: str) -> MemoryEntry.Scope:
    """Return the scope for a path that a tool writes. Only people write for the workspace."""
    if path.startswith(SESSION):
        return MemoryEntry.Scope.SESSION
    if path.startswith(USER):
        return MemoryEntry.Scope.USER
    return MemoryEntry.Scope.AGENT


MOST_BYTES = 100_000
#: As `expected_hash`: the document must not exist yet.
ABSENT = ""


@dataclass(frozen=True, kw_only=True)
class Marks:
    """The flags of a document. None leaves a flag unchanged."""

    pinned: bool | None = None
    never_recall: bool | None = None
    trust: MemoryEntry.Trust | None = None


Path = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PATH), STORABLE]
Hash = Annotated[str, StringConstraints(max_length=64), STORABLE]


class DocumentChange(Input):
    """The fields of a change. None leaves a field unchanged; the owner cannot change."""

    path: Path | None = None
    content: str | None = None
    scope: Literal["workspace", "agent", "user", "session"] | None = None
    #: The id or the exact name of an agent.
    agent: str | None = None
    session: UUID | None = None
    pinned: bool | None = None
    never_recall: bool | None = None
    trust: Literal["trusted", "untrusted"] | None = None
    expected_hash: Hash | None = None

    @property
    def marks(self) -> Marks:
        return Marks(
            pinned=self.pinned,
            never_recall=self.never_recall,
            trust=MemoryEntry.Trust(self.trust) if self.trust else None,
        )


class DocumentInput(DocumentChange):
    """The fields of a document."""

    path: Path
    content: str


def hash_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def checked_content(content: str) -> str:
    if not is_storable(content):
        raise Invalid("A document cannot contain the character NUL or half of a surrogate pair.")
    size = len(content.encode())
    if size > MOST_BYTES:
        raise MemoryTooLarge(
            f"This document has {size:,} bytes; the limit is {MOST_BYTES:,}. Split it into several."
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
    embeds: bool = True,
) -> MemoryEntry:
    """Write the document at this path, creating it if it does not exist.

    `expected_hash` is the hash of the text that the writer has seen, or `ABSENT`. Of two writers who
    saw the same text one wins; the other gets the newer version in a MemoryConflict.
    """
    path, content = checked_path(path), checked_content(content)
    with transaction.atomic():
        entry = _find(owner, path) or _create(owner, path, author)
        before = index_key(entry)
        check_hash(entry, expected_hash)
        set_marks(entry, marks or Marks(), author=author)
        if entry.current_id is None or hash_of(content) != entry.hash:
            add_version(entry, content, author)
        _save(entry)
        if index_key(entry) != before:
            index_entry(entry, content, embeds=embeds)
    return entry


def check_hash(entry: MemoryEntry, expected: str | None) -> None:
    """Raise MemoryConflict unless this is the newest text's hash. The caller has locked the row.

    None accepts any text.
    """
    if expected in (None, ABSENT if entry.current_id is None else entry.hash):
        return
    if entry.current is None:
        raise MemoryConflict("This document no longer exists.")
    raise MemoryConflict(
        newer={
            "id": str(entry.pk),
            "path": entry.path,
            "version": entry.current.number,
            "hash": entry.hash,
            "content": entry.current.content,
        }
    )


def lock_entry(entry: MemoryEntry) -> MemoryEntry:
    """Return the document as it is now, locked until the transaction ends."""
    lock_choice(entry.workspace_id)
    return MemoryEntry.objects.select_for_update(no_key=True).get(pk=entry.pk)


def index_key(entry: MemoryEntry) -> tuple[object, ...]:
    """Return what a document's chunks depend on: while it is equal, they stay."""
    return entry.current_id, entry.hash, entry.path, entry.never_recall, entry.deleted_at


def add_version(entry: MemoryEntry, content: str, author: Author) -> MemoryVersion:
    """Add a version to a document that the caller has locked. It inherits the document's trust.

    Raise DatabaseQuotaReached if the workspace stores as much as it may.
    """
    check_database_room(entry.workspace_id)
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
    """Set flags. Only people can make a document trusted: no program promotes untrusted content."""
    if marks.pinned is not None:
        entry.pinned = marks.pinned
    if marks.never_recall is not None:
        entry.never_recall = marks.never_recall
    promoted = marks.trust == MemoryEntry.Trust.TRUSTED
    if marks.trust and (not promoted or author.kind == MemoryVersion.Author.PERSON):
        entry.trust = marks.trust


def _find(owner: Owner, path: str) -> MemoryEntry | None:
    lock_choice(owner.workspace_id)
    rows = MemoryEntry.objects.select_for_update(no_key=True).kept()
    return rows.filter(workspace_id=owner.workspace_id, owner_id=owner.owner_id, path=path).first()


def _create(owner: Owner, path: str, author: Author) -> MemoryEntry:
    """Create a document, or return the one that another writer created at the same moment."""
    pinned = path == MAIN and owner.scope == MemoryEntry.Scope.AGENT
    try:
        with transaction.atomic():
            return MemoryEntry.objects.create(
                path=path, pinned=pinned, created_by_id=author.user_id, **owner.columns
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


def find_by_path(reader: Reader, path: str) -> MemoryEntry:
    """Return the document at this path in the narrowest of the reader's memories that has it."""
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
    """Change what is given. New text makes a version; a new path or flag does not."""
    row = lock_entry(entry)
    if row.deleted_at:
        raise NotFound
    check_hash(row, expected_hash)
    before = index_key(row)
    set_marks(row, marks or Marks(), author=author)
    if content is not None and hash_of(checked_content(content)) != row.hash:
        add_version(row, content, author)
    row.path = row.path if path is None else checked_path(path)
    return _store(row, before)


@transaction.atomic
def delete_entry(entry: MemoryEntry, *, expected_hash: str | None = None) -> None:
    """Delete a document. Nothing finds it, its path is free, and its versions can be restored."""
    row = lock_entry(entry)
    if row.deleted_at:
        raise NotFound
    check_hash(row, expected_hash)
    MemoryChunk.objects.filter(entry=row).delete()
    MemoryEntry.objects.filter(pk=row.pk).update(deleted_at=Now())


@transaction.atomic
def restore_version(
    entry: MemoryEntry, number: int, *, author: Author, expected_hash: str | None = None
) -> MemoryEntry:
    """Write an earlier text again, as the newest version. This restores a deleted document."""
    row = lock_entry(entry)
    check_hash(row, expected_hash)
    old = version_of(row, number)
    if old.redacted_at:
        raise Conflict(f"Version {number} was redacted, so its text cannot be restored.")
    before = index_key(row)
    if old.hash != row.hash:
        # A text has the trust it was written with; people may have changed the newest one's.
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
    """Remove the text of one version, or of all, permanently. Authors and dates stay on record."""
    row = lock_entry(entry)
    check_hash(row, expected_hash)
    versions: QuerySet[MemoryVersion] = row.versions.filter(redacted_at=None)
    if number is not None:
        versions = versions.filter(pk=version_of(row, number).pk)
    touches_newest = row.current_id in set(versions.values_list("pk", flat=True))
    versions.update(content="", hash="", redacted_at=Now(), redacted_by_id=by)
    _forget_proposals(row)
    if not touches_newest:
        return row
    row = MemoryEntry.objects.select_related("current").get(pk=row.pk)
    before, row.hash = index_key(row), hash_of("")
    return _store(row, before)


def _forget_proposals(row: MemoryEntry) -> None:
    """Remove what consolidations quote of a document that is redacted. What waits is not applied."""
    quoting = Q(entry=row) | Q(relies_on__has_key=str(row.pk))
    changes = ConsolidationChange.objects.for_workspace(row.workspace_id).filter(quoting)
    pending = changes.filter(outcome=ConsolidationChange.Outcome.PENDING)
    pending.update(
        outcome=ConsolidationChange.Outcome.SKIPPED, remark="A document was redacted meanwhile."
    )
    changes.update(content="", reasons=[], relies_on={})
    if row.agent_id:
        reviews = Consolidation.objects.for_workspace(row.workspace_id)
        reviews.filter(agent_id=row.agent_id).update(answers={})


def _store(row: MemoryEntry, before: tuple[object, ...]) -> MemoryEntry:
    """Save a document that the caller has locked, and reindex it if its chunks must change."""
    row.updated_at = Now()
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise Conflict(f"Another document has the path {row.path!r}.") from None
    row.refresh_from_db(fields=["updated_at"])
    if index_key(row) != before:
        index_entry(row, content_of(row))
    return row


def pinned_entries(reader: Reader) -> list[MemoryEntry]:
    """Return the documents to show at every turn: MEMORY.md first, then by path."""
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
    """Validate the number of a version in a request's body."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise Invalid(f"{name} must be the number of a version.")
    return value
