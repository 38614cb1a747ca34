"""Reads a zip that came from outside: bounded, and never unpacked onto a disk."""

from __future__ import annotations

import lzma
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from config.faults import Invalid
from memory.front_matter import FrontMatter, without_front_matter
from memory.paths import checked_path
from memory.writing import MOST_BYTES

MOST_FILES = 2_000
MOST_UNPACKED = 50_000_000
#: A document and its front matter.
LARGEST_FILE = MOST_BYTES + 4_000
#: What systems add to a folder by themselves.
CLUTTER = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")
#: The folder that unpacking an export makes, which people pack again as a whole.
_EXPORT = re.compile(r"memory-(?:[a-z]{4,9}-[0-9a-f]{12}|[0-9a-f-]{36})(?: \(?\d+\)?)?/")
#: How the library says that an archive is broken, in some place or other.
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


@dataclass(frozen=True, kw_only=True)
class Document:
    """One file of an archive."""

    path: str
    content: str
    matter: FrontMatter | None


def read_archive(file: IO[bytes]) -> list[Document]:
    """The documents in a zip from outside, by path."""
    try:
        with zipfile.ZipFile(file) as archive:
            # In one order for all: two imports at once then wait for each other, and never both.
            return sorted(_documents(archive), key=lambda one: one.path)
    except BROKEN as error:
        raise Invalid("This is not a zip that can be read.") from error
    except RuntimeError as error:  # How the library says that there is a password.
        raise Invalid("This zip is encrypted.") from error


def _documents(archive: zipfile.ZipFile) -> Iterator[Document]:
    files = [(_name(one), one) for one in archive.infolist() if not one.is_dir()]
    files = [(name, one) for name, one in files if not _is_clutter(name)]
    if len(files) > MOST_FILES:
        raise Invalid(f"An archive has at most {MOST_FILES:,} files; this has {len(files):,}.")
    folder = _folder_of_all([name for name, _ in files])
    seen: set[str] = set()
    unpacked = 0
    for name, info in files:
        path = checked_path(name.removeprefix(folder))
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Invalid(f"{path} is a link. An archive holds plain files only.")
        raw = _bytes(archive, info)
        unpacked += len(raw)
        if unpacked > MOST_UNPACKED:
            raise Invalid(f"The files have more than {MOST_UNPACKED:,} bytes together.")
        matter, content = without_front_matter(_text(raw, path))
        if matter and matter.path:
            path = checked_path(matter.path)
        if path in seen:
            raise Invalid(f"{path} is twice in the archive.")
        seen.add(path)
        yield Document(path=path, content=content, matter=matter)


def _name(info: zipfile.ZipInfo) -> str:
    """The file's name. Some tools write UTF-8 and do not say so."""
    if not info.flag_bits & UTF8_NAME:
        try:
            return info.filename.encode("cp437").decode()
        except UnicodeError:
            pass  # It is what it seems to be.
    return info.filename


def _folder_of_all(names: Sequence[str]) -> str:
    """The folder of an export in which everything stands, if there is one."""
    found = _EXPORT.match(names[0]) if names else None
    return found[0] if found and all(name.startswith(found[0]) for name in names) else ""


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
