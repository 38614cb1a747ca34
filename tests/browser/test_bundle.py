"""Tests of the size of scripts: the chat's script is small and loaded only in a chat."""

from __future__ import annotations

import gzip
import json

from core.env import ROOT

DIST = ROOT / "static" / "dist"
#: Limits in compressed bytes.
MOST_FOR_CHAT, MOST_ELSEWHERE = 90_000, 10_000


def compressed_size(name: str) -> int:
    """Return the compressed size of a script and of everything it imports at once."""
    manifest = json.loads((DIST / "manifest.json").read_text())
    seen: set[str] = set()

    def add(entry: str) -> int:
        if entry in seen:
            return 0
        seen.add(entry)
        own = len(gzip.compress((DIST / manifest[entry]["file"]).read_bytes()))
        return own + sum(add(other) for other in manifest[entry].get("imports", []))

    return add(name)


def test_the_chats_script_is_small_enough():
    assert compressed_size("src/main.ts") < compressed_size("src/chat/chat.ts") <= MOST_FOR_CHAT


def test_other_pages_do_not_load_the_chats_script():
    assert compressed_size("src/main.ts") <= MOST_ELSEWHERE
