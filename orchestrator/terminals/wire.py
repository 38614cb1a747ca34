"""What web processes and the host of terminals say to each other: short frames on a Unix socket.

A frame is its length in four bytes, one letter for its kind, and a body: `J` is JSON, `B` is what
a shell wrote or a person typed. Only this installation's own user may connect.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings

from config.faults import TerminalsAway

SOCKET = "terminals.sock"
#: Longer names do not fit into the address of a Unix socket.
LONGEST_PATH = 100
MOST_BYTES = 1024 * 1024
JSON, BYTES = b"J", b"B"

Words = dict[str, Any]


def address() -> str:
    """Where the host of this installation listens, short enough for a socket's address."""
    return _short(str(settings.DATA_DIR))


@cache
def _short(folder: str) -> str:
    path = str(Path(folder) / SOCKET)
    if len(os.fsencode(path)) <= LONGEST_PATH:
        return path
    # Kept open as long as the process: the kernel knows the folder by it.
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{SOCKET}"


def frame(body: bytes | Words) -> bytes:
    kind, packed = (BYTES, body) if isinstance(body, bytes) else (JSON, orjson.dumps(body))
    return len(packed).to_bytes(4) + kind + packed


def size_of(head: bytes) -> int:
    """How long the body is. A longer one comes from somebody else."""
    if (size := int.from_bytes(head[:4])) > MOST_BYTES:
        raise TerminalsAway
    return size


def body_of(head: bytes, body: bytes) -> bytes | Words:
    if head[4:] == BYTES:
        return body
    words: Words = orjson.loads(body)
    return words


async def next_frame(reader: asyncio.StreamReader) -> bytes | Words | None:
    """The next frame, or None when the other side has hung up."""
    try:
        head = await reader.readexactly(5)
        return body_of(head, await reader.readexactly(size_of(head)))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
