"""Stores the images and files that models read: once per workspace, by the hash of their content.

What is stored never changes, so that a later request sends what the first one sent, whatever became
of the file. Its kind and its facts are read from its first bytes, never believed.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from agents.providers.base import Part
from core.exceptions import Invalid
from tools_app.storage import BLOCK, reserving

#: Bytes of an image and of another file that a model can be shown. Vendors take about as much.
MAX_IMAGE_BYTES = 5_000_000
MAX_FILE_BYTES = 20_000_000
#: Pixels of one side of an image.
MAX_SIDE = 8_000
#: Pages of a PDF.
MAX_PAGES = 600
#: Bytes of a PDF's compressed objects that are searched for pages.
MAX_UNPACKED = 20_000_000
#: As many first bytes say what a file is.
SNIFFED = 16
_HASH = re.compile(r"[0-9a-f]{64}")
FILE_ID = "file_"


def kind_of(head: bytes) -> str:
    """Return the media type that the first bytes of a file show, or "" for no part."""
    if head.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12], "")
    for start, media_type in _STARTS.items():
        if head.startswith(start):
            return media_type
    return ""


_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mp3",
    b"\xff\xfb": "audio/mp3",
}


def most_bytes(media_type: str) -> int:
    return MAX_IMAGE_BYTES if media_type.startswith("image/") else MAX_FILE_BYTES


def read_part(content: bytes, name: str = "") -> Part:
    """Return the part of this content. Raise Invalid, with the reason, if no model could read it."""
    name = name[:255] or "file"
    media_type = kind_of(content[:SNIFFED])
    if not media_type:
        raise Invalid(f"{name} is not an image, a PDF or a sound file that models can read.")
    if len(content) > most_bytes(media_type):
        most = most_bytes(media_type) // 1_000_000
        raise Invalid(f"{name} has {len(content):,} bytes; models are shown at most {most} MB.")
    width, height, pages = 0, 0, None
    try:
        if media_type.startswith("image/"):
            width, height = _SIZES[media_type](content)
        elif media_type == "application/pdf":
            pages = _pages(content)
    except (ValueError, IndexError, struct.error):
        raise Invalid(f"{name} is broken: it is not a complete {_named(media_type)}.") from None
    if max(width, height) > MAX_SIDE:
        raise Invalid(f"{name} has {width:,} by {height:,} pixels; at most {MAX_SIDE:,} a side.")
    if pages and pages > MAX_PAGES:
        raise Invalid(f"{name} has {pages:,} pages; models are shown at most {MAX_PAGES:,}.")
    return Part(
        type="image" if media_type.startswith("image/") else "file",
        media_type=media_type,
        sha256=sha256(content).hexdigest(),
        name=name,
        size=len(content),
        width=width,
        height=height,
        pages=pages,
    )


def _named(media_type: str) -> str:
    return media_type.partition("/")[2].upper() + (
        " image" if media_type.startswith("image/") else " file"
    )


def _png_size(content: bytes) -> tuple[int, int]:
    if content[12:16] != b"IHDR" or b"IEND" not in content[-16:]:
        raise ValueError
    return struct.unpack(">II", content[16:24])


def _gif_size(content: bytes) -> tuple[int, int]:
    if content.rstrip(b"\0")[-1:] != b";":
        raise ValueError
    return struct.unpack("<HH", content[6:10])


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Return the size in the frame header, which stands among segments of other kinds."""
    if b"\xff\xd9" not in content[-1024:]:
        raise ValueError
    at = 2
    while content[at] == 0xFF:
        marker, length = content[at + 1], struct.unpack(">H", content[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + length
    raise ValueError


def _webp_size(content: bytes) -> tuple[int, int]:
    if struct.unpack("<I", content[4:8])[0] + 8 > len(content) + 1:
        raise ValueError
    match content[12:16]:
        case b"VP8X":
            sides = content[24:27], content[27:30]
            width, height = (int.from_bytes(side, "little") + 1 for side in sides)
            return width, height
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", content[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            raise ValueError


_SIZES = {
    "image/png": _png_size,
    "image/gif": _gif_size,
    "image/jpeg": _jpeg_size,
    "image/webp": _webp_size,
}
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PACKED = re.compile(rb"/ObjStm.{0,300}?stream\r?\n", re.DOTALL)


def _pages(content: bytes) -> int | None:
    """Return how many pages a PDF has, as far as its objects tell; None if they are not found."""
    if b"%%EOF" not in content[-2048:]:
        raise ValueError
    found = len(_PAGE.findall(content))
    left = MAX_UNPACKED
    for packed in _PACKED.finditer(content):
        with suppress(zlib.error):
            objects = zlib.decompressobj().decompress(content[packed.end() :], left)
            found += len(_PAGE.findall(objects))
            left -= len(objects)
        if left <= 0:
            break
    return found or None


# ── The store ────────────────────────────────────────────────────────────────────────────────────


def parts_dir(workspace_id: object) -> Path:
    return Path(settings.DATA_DIR, "parts", str(workspace_id))


def path_of(workspace_id: object, digest: str) -> Path:
    if not _HASH.fullmatch(digest):
        raise Invalid("A file id is `file_` and 64 digits.")
    return parts_dir(workspace_id) / digest[:2] / digest


def store_part(workspace_id: UUID, content: bytes, name: str = "") -> Part:
    """Store the content, unless the workspace has it already, and return its part.

    The file appears whole or not at all: a process that dies leaves only a file that is not read.
    """
    part = read_part(content, name)
    path = path_of(workspace_id, part.sha256)
    if path.exists():
        return part
    unfinished = path.with_name(f"{part.sha256}.{os.getpid()}.{os.urandom(4).hex()}")
    with reserving(path) as reservation:
        reservation.take(-(-len(content) // BLOCK) * BLOCK, files=1)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    return part


def load_content(workspace_id: UUID, digest: str) -> bytes | None:
    """Return what is stored under a hash, or None if there is nothing."""
    try:
        return path_of(workspace_id, digest).read_bytes()
    except (FileNotFoundError, Invalid):
        return None


def find_part(workspace_id: UUID, file_id: str, name: str = "") -> tuple[Part, bytes]:
    """Return the stored part with this id and its content, or raise Invalid."""
    content = load_content(workspace_id, file_id.removeprefix(FILE_ID))
    if content is None:
        raise Invalid(f"There is no file {file_id[:80]!r} in this workspace.")
    return read_part(content, name), content


def parse_parts(value: object) -> tuple[Part, ...]:
    """Return the parts that a stored payload names. Anything else in it is left out."""
    if not isinstance(value, list):
        return ()
    return tuple(part for item in value if (part := _parse_part(item)) is not None)


def _parse_part(item: object) -> Part | None:
    if not isinstance(item, Mapping) or not _HASH.fullmatch(str(item.get("sha256", ""))):
        return None
    facts: dict[str, Any] = {name: item[name] for name in Part.FACTS if name in item}
    with suppress(TypeError, ValueError):
        return Part(**facts)
    return None
