"""Small files of the kinds that models can be shown."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 1, seed: int = 0) -> bytes:
    """Return a PNG image of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = (b"\0" + bytes([seed % 256, 80, 40]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def pdf(pages: int = 2, *, packed: bool = False) -> bytes:
    """Return a PDF whose pages are empty. `packed` puts its objects into a compressed stream."""
    objects = b"".join(
        b"%d 0 obj << /Type /Page /Parent 2 0 R >> endobj\n" % nth for nth in range(3, 3 + pages)
    )
    if packed:
        data = zlib.compress(objects)
        objects = b"9 0 obj << /Type /ObjStm /Length %d >> stream\n%b\nendstream\n" % (
            len(data),
            data,
        )
    return b"%PDF-1.7\n1 0 obj << /Type /Pages >> endobj\n" + objects + b"%%EOF\n"


GIF = b"GIF89a\x03\0\x02\0\x80\0\0" + bytes(6) + b",\0\0\0\0\x03\0\x02\0\0\x02\x02\x84Q\0;"
JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF\0"
    + bytes(9)
    + b"\xff\xc0\0\x11\x08\0\x05\0\x07\x03"
    + bytes(9)
    + b"\xff\xd9"
)
WEBP = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x04\x80\x01\0" + bytes(9)
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)
