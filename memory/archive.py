"""An agent's memory as a zip of Markdown files, and back. An import happens whole or not at all."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import IO
from uuid import UUID

from django.db import transaction

from config.faults import MemoryConflict
from memory.documents import content_of
from memory.file_names import file_names
from memory.front_matter import FrontMatter, with_front_matter
from memory.models import MemoryEntry, MemoryVersion
from memory.owner import Author, Owner
from memory.unpacking import Document
from memory.writing import ABSENT, Marks, hash_of, write_entry


@dataclass(frozen=True, kw_only=True)
class Imported:
    created: int
    changed: int
    unchanged: int


def write_archive(owner: Owner, file: IO[bytes]) -> int:
    """Write the owner's documents into a zip, and answer how many."""
    rows = MemoryEntry.objects.for_workspace(owner.workspace_id).kept()
    rows = rows.filter(owner_id=owner.owner_id, current__isnull=False).order_by("path")
    names = file_names(rows.values_list("path", flat=True))
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in rows.select_related("current").iterator(chunk_size=200):
            matter = FrontMatter(
                pinned=entry.pinned,
                never_recall=entry.never_recall,
                trust=MemoryEntry.Trust(entry.trust),
                hash=entry.hash,
                path=""
                if (name := names.get(entry.path, entry.path)) == entry.path
                else entry.path,
            )
            info = zipfile.ZipInfo(name, entry.updated_at.timetuple()[:6])
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, with_front_matter(matter, content_of(entry)))
            count += 1
    return count


def import_archive(
    owner: Owner, documents: list[Document], *, by: UUID | None, overwrite: bool = False
) -> Imported:
    """Write all of them, or none. A document that changed since its export is a conflict."""
    author = Author(kind=MemoryVersion.Author.IMPORT, user_id=by)
    created = changed = 0
    with transaction.atomic():
        known = _hashes(owner)
        for document in documents:
            before = known.get(document.path)
            entry = _import(owner, document, before, author, overwrite=overwrite)
            created += before is None
            changed += before is not None and entry.hash != before
    return Imported(created=created, changed=changed, unchanged=len(documents) - created - changed)


def _import(
    owner: Owner, document: Document, before: str | None, author: Author, *, overwrite: bool
) -> MemoryEntry:
    matter = document.matter
    expected = ABSENT if before is None else before
    seen = matter.hash if matter else ""
    same = before == hash_of(document.content)
    if before is not None and not overwrite and not same and seen != before:
        raise MemoryConflict(
            f"{document.path} has changed since it was exported. Nothing was imported; "
            "export again, or import with overwrite=true."
        )
    marks = (
        Marks(pinned=matter.pinned, never_recall=matter.never_recall, trust=matter.trust)
        if matter
        else None
    )
    return write_entry(
        owner=owner,
        path=document.path,
        content=document.content,
        author=author,
        expected_hash=expected,
        marks=marks,
    )


def _hashes(owner: Owner) -> dict[str, str]:
    rows = MemoryEntry.objects.for_workspace(owner.workspace_id).kept()
    return dict(rows.filter(owner_id=owner.owner_id).values_list("path", "hash"))
