"""Reads a range of lines of a file that may be huge, binary or one endless line."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BufferedReader

from config.faults import ToolFailed
from tools_app.context import ToolContext

#: Bytes of one answer. More is read by asking for later lines.
LARGEST_ANSWER = 200_000
#: Bytes looked through to find the first line asked for.
FARTHEST = 256 * 1024 * 1024
CHUNK = 65_536
SNIFFED = 8_192


@dataclass(kw_only=True)
class _Taken:
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    cut: bool = False
    ended: bool = False


def read_lines(
    file: BufferedReader, *, path: str, first: int, count: int, context: ToolContext
) -> str:
    """The lines from `first` on, with a note of what follows them."""
    head = file.read(SNIFFED)
    if b"\0" in head:
        size = file.seek(0, 2)
        raise ToolFailed(f"{path} is a binary file ({size:,} bytes). Only text can be read.")
    file.seek(0)
    if not head:
        return f"[{path} is empty]"
    _skip(file, first - 1, path, context)
    taken = _take(file, count)
    if not taken.lines:
        raise ToolFailed(f"{path} has fewer than {first} lines.")
    text = b"".join(taken.lines).decode("utf-8", "replace").replace("\0", "\ufffd")
    return text + _note(taken, first)


def _skip(file: BufferedReader, lines: int, path: str, context: ToolContext) -> None:
    """Pass over whole lines without keeping them."""
    passed = 0
    while lines:
        line = file.readline(CHUNK)
        passed += len(line)
        if not line:
            raise ToolFailed(f"{path} has fewer lines than that.")
        if passed > FARTHEST:
            raise ToolFailed(f"{path} is too large to look that far into it. Use a command.")
        lines -= line.endswith(b"\n")
        context.check_stopped()


def _take(file: BufferedReader, count: int) -> _Taken:
    taken = _Taken()
    while len(taken.lines) < count:
        room = LARGEST_ANSWER - taken.size
        if room <= 0:
            taken.cut = True
            return taken
        line = file.readline(room)
        if not line:
            taken.ended = True
            return taken
        taken.lines.append(line)
        taken.size += len(line)
        if len(line) == room and not line.endswith(b"\n"):
            taken.cut = True
            return taken
    taken.ended = not file.peek(1)
    return taken


def _note(taken: _Taken, first: int) -> str:
    if taken.ended and first == 1:
        return ""
    last = first + len(taken.lines) - 1
    if taken.ended:
        return f"\n[lines {first}-{last}, the end of the file]"
    if taken.cut:
        return f"\n[lines {first}-{last}; the answer is full, line {last} may be cut]"
    return f"\n[lines {first}-{last}; there is more, from first_line={last + 1}]"
