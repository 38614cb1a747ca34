"""What a page loads: the chat's own script only where there is a chat, and not too much of it."""

from __future__ import annotations

import gzip
import json

from core.env import ROOT

DIST = ROOT / "static" / "dist"
#: Bytes on the wire.
MOST_FOR_CHAT, MOST_ELSEWHERE = 90_000, 10_000


def weight(name: str) -> int:
    """How much a script and all that it needs at once weigh, compressed."""
    manifest = json.loads((DIST / "manifest.json").read_text())
    seen: set[str] = set()

    def add(entry: str) -> int:
        if entry in seen:
            return 0
        seen.add(entry)
        own = len(gzip.compress((DIST / manifest[entry]["file"]).read_bytes()))
        return own + sum(add(other) for other in manifest[entry].get("imports", []))

    return add(name)


def test_the_chat_is_light_enough():
    assert weight("src/main.ts") < weight("src/chat/chat.ts") <= MOST_FOR_CHAT


def test_other_pages_do_not_carry_the_chat():
    assert weight("src/main.ts") <= MOST_ELSEWHERE
