"""The few lines at the head of an exported file that say what its text does not.

They are plain `name: value` lines, which every tool that knows YAML front matter can edit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.models import MemoryEntry

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
    #: Of the text as it was exported: an import is refused when the document has changed since.
    hash: str = ""
    #: When the file could not have the document's path for its name.
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
    """What the head says, and the text below it. A head that says anything else is text.

    What an editor added to the head of an export stays: as the head of the text.
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
