"""The rule of every vendor for images and files: base64 of what the media type says."""

from __future__ import annotations

import binascii
from base64 import b64decode

from tests.wire.answers import BadRequest

STARTS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
    "audio/wav": b"RIFF",
    "audio/mp3": b"",
}
MOST_BYTES = 5_000_000


def check_content(media_type: object, data: object, where: str) -> None:
    if media_type not in STARTS:
        raise BadRequest(f"{where}: Unsupported MIME type: {media_type}")
    try:
        content = b64decode(str(data), validate=True)
    except binascii.Error:
        raise BadRequest(f"{where}: invalid base64 data") from None
    if not content.startswith(STARTS[str(media_type)]):
        raise BadRequest(f"{where}: Could not process {media_type}")
    if str(media_type).startswith("image/") and len(content) > MOST_BYTES:
        raise BadRequest(f"{where}: image exceeds 5 MB maximum")
