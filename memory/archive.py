"""An agent's memory as a zip of Markdown files, and back. An import happens whole or not at all."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from uuid import UUID

from django.db import transaction

from config.faults import Invalid, MemoryConflict
from memory.documents import content_of
from memory.front_matter import FrontMatter, with_front_matter, without_front_matter
from memory.models import MemoryEntry, MemoryVersion
from memory.owner import Author, Owner
from memory.paths import checked_path
from memory.writing import ABSENT, MOST_BYTES, Marks, hash_of, write_entry

MOST_FILES = 2_000
MOST_UNPACKED = 50_000_000
#: A document and its front matter.
LARGEST_FILE = MOST_BYTES + 4_000
#: What systems add to a folder by themselves.
CLUTTER = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True, kw_only=True)
class Document:
    """One file of an archive."""

    path: str
    content: str
    matter: FrontMatter | None


@dataclass(frozen=True, kw_only=True)
class Imported:
    created: int
    changed: int
    unchanged: int


def write_archive(owner: Owner, file: IO[bytes]) -> int:
    """Write the owner's documents into a zip, and answer how many."""
    rows = MemoryEntry.objects.for_workspace(owner.workspace_id).kept()
    rows = rows.filter(owner_id=owner.owner_id, current__isnull=False).order_by("path")
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in rows.select_related("current").iterator(chunk_size=200):
            matter = FrontMatter(
                pinned=entry.pinned,
                never_recall=entry.never_recall,
                trust=MemoryEntry.Trust(entry.trust),
                hash=entry.hash,
            )
            name = zipfile.ZipInfo(entry.path, entry.updated_at.timetuple()[:6])
            name.compress_type, name.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(name, with_front_matter(matter, content_of(entry)))
            count += 1
    return count


def read_archive(file: IO[bytes]) -> list[Document]:
    """The documents in a zip from outside, by path. Nothing is unpacked onto a disk."""
    try:
        with zipfile.ZipFile(file) as archive:
            # In one order for all: two imports at once then wait for each other, and never both.
            return sorted(_documents(archive), key=lambda one: one.path)
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        EOFError,
        OSError,
    ) as error:
        raise Invalid("This is not a zip that can be read.") from error
    except RuntimeError as error:  # How the library says that there is a password.
        raise Invalid("This zip is encrypted.") from error


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


def _documents(archive: zipfile.ZipFile) -> Iterator[Document]:
    files = [
        one for one in archive.infolist() if not one.is_dir() and not _is_clutter(one.filename)
    ]
    if len(files) > MOST_FILES:
        raise Invalid(f"An archive has at most {MOST_FILES:,} files; this has {len(files):,}.")
    seen: set[str] = set()
    unpacked = 0
    for info in files:
        path = checked_path(info.filename)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Invalid(f"{path} is a link. An archive holds plain files only.")
        if path in seen:
            raise Invalid(f"{path} is twice in the archive.")
        seen.add(path)
        raw = _bytes(archive, info)
        unpacked += len(raw)
        if unpacked > MOST_UNPACKED:
            raise Invalid(f"The files have more than {MOST_UNPACKED:,} bytes together.")
        matter, content = without_front_matter(_text(raw, path))
        yield Document(path=path, content=content, matter=matter)


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The file's bytes, read no further than allowed: what the zip says of its size may be a lie."""
    with archive.open(info) as file:
        raw = file.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise Invalid(f"{info.filename[:200]} has more than {MOST_BYTES:,} bytes.")
    return raw


def _text(raw: bytes, path: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not a UTF-8 text file.") from error


def _is_clutter(name: str) -> bool:
    return any(part in CLUTTER for part in name.split("/"))
