"""Exports memory as a zip of Markdown files, and imports such a zip.

An import is bounded in size and number of files, and never unpacked onto a disk.
"""

from __future__ import annotations

import lzma
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from core.db import release_connection
from core.exceptions import Invalid
from memory import documents
from memory.documents import MOST_BYTES, checked_path
from memory.exceptions import MemoryConflict
from memory.index import vectors_later
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Author, Owner
from tools_app.storage import check_disk


def file_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the file name of each document: its path, or a unique variant of it."""
    paths = list(paths)
    folders: dict[str, str] = {}  # By key, as first spelt.
    for path in paths:
        for folder in _folders(path):
            folders.setdefault(_key(folder), folder)
    taken = set(folders)
    names: dict[str, str] = {}
    for path in paths:
        above, slash, last = path.rpartition("/")
        wanted = f"{folders[_key(above)]}{slash}{last}" if above else path
        names[path] = name = _free(wanted, taken)
        taken.add(_key(name))
    return names


def _folders(path: str) -> Iterable[str]:
    """Return every folder above a file, outermost first."""
    return accumulate(path.split("/")[:-1], lambda above, name: f"{above}/{name}")


def _key(name: str) -> str:
    """Return the key under which a case-insensitive, normalising file system sees a name."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _free(name: str, taken: set[str]) -> str:
    stem, dot, kind = name.rpartition(".") if "." in name.rpartition("/")[2] else (name, "", "")
    tried, number = name, 1
    while _key(tried) in taken:
        number += 1
        tried = f"{stem} ({number}){dot}{kind}"
    return tried


FENCE = "---"
MOST_LINES = 60
NAMES = frozenset({"pinned", "never_recall", "trust", "hash", "path"})
_IS_HASH = re.compile(r"[0-9a-f]{64}")
YES, NO = "true", "false"


@dataclass(frozen=True, kw_only=True)
class FrontMatter:
    pinned: bool = False
    never_recall: bool = False
    trust: MemoryEntry.Trust = MemoryEntry.Trust.TRUSTED
    #: Of the exported text: an import fails if the document has changed since.
    hash: str = ""
    #: Set if the document's path could not be the name of the file.
    path: str = ""


def with_front_matter(matter: FrontMatter, content: str) -> str:
    lines = [
        FENCE,
        f"pinned: {YES if matter.pinned else NO}",
        f"never_recall: {YES if matter.never_recall else NO}",
        f"trust: {matter.trust.value}",
        f"hash: {matter.hash}",
        *([f"path: {matter.path}"] if matter.path else []),
        FENCE,
    ]
    return "\n".join(lines) + "\n" + content


def without_front_matter(text: str) -> tuple[FrontMatter | None, str]:
    """Split front matter from the text. Front matter with unknown content is part of the text.

    Lines that an editor added to an exported file's front matter stay, at the head of the text.
    """
    first, _, rest = text.partition("\n")
    if first.rstrip("\r") != FENCE:
        return None, text
    fields: dict[str, str] = {}
    others: list[str] = []
    for _ in range(MOST_LINES):
        line, newline, rest = rest.partition("\n")
        if line.strip() == FENCE:
            break
        name, colon, value = line.partition(":")
        if colon and name in NAMES:
            fields[name] = _unquoted(value.strip())
        else:
            others.append(line + newline)
        if not newline:
            return None, text
    else:
        return None, text
    matter = _read(fields)
    if matter is None or ((others or matter.path) and not _IS_HASH.fullmatch(matter.hash)):
        return None, text
    return matter, f"{FENCE}\n{''.join(others)}{FENCE}\n{rest}" if others else rest


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def _read(fields: dict[str, str]) -> FrontMatter | None:
    try:
        trust = MemoryEntry.Trust(fields.get("trust", MemoryEntry.Trust.TRUSTED))
    except ValueError:
        return None
    return FrontMatter(
        pinned=fields.get("pinned", NO).lower() == YES,
        never_recall=fields.get("never_recall", NO).lower() == YES,
        trust=trust,
        hash=fields.get("hash", ""),
        path=fields.get("path", ""),
    )


MOST_FILES = 2_000
MOST_UNPACKED = 50_000_000
#: A document and its front matter.
LARGEST_FILE = MOST_BYTES + 4_000
#: Files that operating systems add to folders.
CLUTTER = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")
#: The folder that unpacking an export creates, and that people zip again as a whole.
_EXPORT = re.compile(r"memory-(?:[a-z]{4,9}-[0-9a-f]{12}|[0-9a-f-]{36})(?: \(?\d+\)?)?/")
#: The errors by which the library reports a broken archive.
BROKEN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)
UTF8_NAME = 0x800
PAGE_ROWS = 200


@dataclass(frozen=True, kw_only=True)
class Document:
    """One file of an archive."""

    path: str
    content: str
    matter: FrontMatter | None


def read_archive(file: IO[bytes]) -> list[Document]:
    """Return the documents in a zip, sorted by path."""
    try:
        with zipfile.ZipFile(file) as archive:
            # Sorted, so that two imports at the same time lock rows in the same order.
            return sorted(_documents(archive), key=lambda document: document.path)
    except BROKEN as error:
        raise Invalid("This file is not a valid zip.") from error
    except RuntimeError as error:  # The library's error for an encrypted archive.
        raise Invalid("This zip is encrypted.") from error


def _documents(archive: zipfile.ZipFile) -> Iterator[Document]:
    files = [(_name(one), one) for one in archive.infolist() if not one.is_dir()]
    files = [(name, one) for name, one in files if not _is_clutter(name)]
    if len(files) > MOST_FILES:
        raise Invalid(f"An archive can have at most {MOST_FILES:,} files; this has {len(files):,}.")
    folder = _folder_of_all([name for name, _ in files])
    seen: set[str] = set()
    unpacked = 0
    for name, info in files:
        path = checked_path(name.removeprefix(folder))
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Invalid(f"{path} is a link. An archive can contain only regular files.")
        raw = _bytes(archive, info)
        unpacked += len(raw)
        if unpacked > MOST_UNPACKED:
            raise Invalid(f"The files have more than {MOST_UNPACKED:,} bytes in total.")
        matter, content = without_front_matter(_text(raw, path))
        if matter and matter.path:
            path = checked_path(matter.path)
        if path in seen:
            raise Invalid(f"{path} occurs twice in the archive.")
        seen.add(path)
        yield Document(path=path, content=content, matter=matter)


def _name(info: zipfile.ZipInfo) -> str:
    """Return the file's name. Some tools write UTF-8 without setting the flag."""
    if not info.flag_bits & UTF8_NAME:
        try:
            return info.filename.encode("cp437").decode()
        except UnicodeError:
            pass  # The name really is in cp437.
    return info.filename


def _folder_of_all(names: Sequence[str]) -> str:
    """Return the export's folder that contains all files, if there is one."""
    found = _EXPORT.match(names[0]) if names else None
    return found[0] if found and all(name.startswith(found[0]) for name in names) else ""


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a file up to the limit, because the size that a zip states may be false."""
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


@dataclass(frozen=True, kw_only=True)
class Imported:
    created: int
    changed: int
    unchanged: int


def write_archive(owner: Owner, file: IO[bytes]) -> int:
    """Write the owner's documents to a zip, and return how many."""
    rows = MemoryEntry.objects.for_workspace(owner.workspace_id).kept()
    rows = rows.filter(owner_id=owner.owner_id, current__isnull=False).order_by("path")
    names = file_names(rows.values_list("path", flat=True))
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in _pages(rows.select_related("current")):
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
            archive.writestr(info, with_front_matter(matter, documents.content_of(entry)))
            count += 1
    return count


def _pages(rows: QuerySet[MemoryEntry]) -> Iterator[MemoryEntry]:
    """Yield the rows in the order of their paths, without a connection while a page is worked on."""
    after = ""
    while page := list(rows.filter(path__gt=after)[:PAGE_ROWS]):
        release_connection()
        yield from page
        after = page[-1].path


def import_archive(
    owner: Owner, archived: list[Document], *, by: UUID | None, overwrite: bool = False
) -> Imported:
    """Import all documents or none. Raise MemoryConflict if one has changed since its export."""
    check_disk()
    author = Author(kind=MemoryVersion.Author.IMPORT, user_id=by)
    created = changed = 0
    with transaction.atomic(), vectors_later():
        known = _hashes(owner)
        for document in archived:
            before = known.get(document.path)
            entry = _import(owner, document, before, author, overwrite=overwrite)
            created += before is None
            changed += before is not None and entry.hash != before
    return Imported(created=created, changed=changed, unchanged=len(archived) - created - changed)


def _import(
    owner: Owner, document: Document, before: str | None, author: Author, *, overwrite: bool
) -> MemoryEntry:
    matter = document.matter
    expected = documents.ABSENT if before is None else before
    seen = matter.hash if matter else ""
    same = before == documents.hash_of(document.content)
    if before is not None and not overwrite and not same and seen != before:
        raise MemoryConflict(
            f"{document.path} has changed since it was exported. Nothing was imported. "
            "Export again, or import with overwrite=true."
        )
    marks = (
        documents.Marks(pinned=matter.pinned, never_recall=matter.never_recall, trust=matter.trust)
        if matter
        else None
    )
    return documents.write_entry(
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
