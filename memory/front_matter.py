"""The few lines at the head of an exported file that say what its text does not.

They are plain `name: value` lines, which every tool that knows YAML front matter can edit.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory.models import MemoryEntry

FENCE = "---"
MOST_LINES = 20
YES, NO = "true", "false"


@dataclass(frozen=True, kw_only=True)
class FrontMatter:
    pinned: bool = False
    never_recall: bool = False
    trust: MemoryEntry.Trust = MemoryEntry.Trust.TRUSTED
    #: Of the text as it was exported: an import is refused when the document has changed since.
    hash: str = ""


def with_front_matter(matter: FrontMatter, content: str) -> str:
    lines = [
        FENCE,
        f"pinned: {YES if matter.pinned else NO}",
        f"never_recall: {YES if matter.never_recall else NO}",
        f"trust: {matter.trust.value}",
        f"hash: {matter.hash}",
        FENCE,
    ]
    return "\n".join(lines) + "\n" + content


def without_front_matter(text: str) -> tuple[FrontMatter | None, str]:
    """What the head says, and the text below it. A head that says anything else is text."""
    first, _, rest = text.partition("\n")
    if first.rstrip("\r") != FENCE:
        return None, text
    fields: dict[str, str] = {}
    for _ in range(MOST_LINES):
        line, newline, rest = rest.partition("\n")
        line = line.strip()
        if line == FENCE:
            matter = _read(fields)
            return (matter, rest) if matter else (None, text)
        name, colon, value = line.partition(":")
        if not colon or not newline:
            break
        fields[name.strip()] = value.strip().strip("'\"")
    return None, text


def _read(fields: dict[str, str]) -> FrontMatter | None:
    if not set(fields) <= {"pinned", "never_recall", "trust", "hash"}:
        return None
    try:
        trust = MemoryEntry.Trust(fields.get("trust", MemoryEntry.Trust.TRUSTED))
    except ValueError:
        return None
    return FrontMatter(
        pinned=fields.get("pinned", NO).lower() == YES,
        never_recall=fields.get("never_recall", NO).lower() == YES,
        trust=trust,
        hash=fields.get("hash", ""),
    )
