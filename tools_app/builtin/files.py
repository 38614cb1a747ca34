"""Tools for the files of a session's workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Annotated, Any

from pydantic import Field

from core.exceptions import Invalid
from core.validation import storable
from tools_app import files
from tools_app.exceptions import ToolFailed
from tools_app.files import Root
from tools_app.parts import kind_of, most_bytes, store_part
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

#: Bytes of one answer. Later lines are read with another call.
LARGEST_ANSWER = 200_000
#: Bytes that are skipped at most to find the first line.
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
    """Return the lines from `first` on, with a note of what follows them."""
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


def read_as_part(
    file: BufferedReader, media_type: str, path: str, context: ToolContext
) -> dict[str, Any]:
    """Return an image, a PDF or a sound file as a part for the model."""
    content = file.read(most_bytes(media_type) + 1)
    try:
        part = store_part(context.workspace_id, content, path.rpartition("/")[2])
    except Invalid as fault:
        raise ToolFailed(fault.detail) from None
    return {"text": f"{path} ({media_type}, {part.size:,} bytes)", "parts": [part.as_json()]}


def _skip(file: BufferedReader, lines: int, path: str, context: ToolContext) -> None:
    """Skip whole lines without keeping them."""
    passed = 0
    while lines:
        line = file.readline(CHUNK)
        passed += len(line)
        if not line:
            raise ToolFailed(f"{path} has fewer lines than that.")
        if passed > FARTHEST:
            raise ToolFailed(f"{path} is too large to read that far. Use a command.")
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


#: Larger files can be read in parts, but not edited.
LARGEST_EDIT = 2_000_000
MOST_ENTRIES = 500

Path = Annotated[
    str,
    Field(min_length=1, max_length=4096, description="Path relative to the workspace."),
]


class ReadFile(Arguments):
    path: Path
    first_line: int = Field(default=1, ge=1, description="Line to start at, counted from 1.")
    lines: int = Field(default=1000, ge=1, le=5000, description="How many lines, 1000 if left out.")


class WriteFile(Arguments):
    path: Path
    content: str = Field(max_length=1_000_000, description="The whole new content of the file.")


class EditFile(Arguments):
    path: Path
    old: str = Field(min_length=1, max_length=200_000, description="Text to replace, exactly.")
    new: str = Field(max_length=200_000, description="Text to put in its place.")
    replace_all: bool = Field(
        default=False, description="Replace every occurrence. Otherwise `old` must occur once."
    )


class ListDirectory(Arguments):
    path: str = Field(
        default=".",
        max_length=4096,
        description="Folder relative to the workspace, '.' is its top.",
    )


@tool(category=Category.FILESYSTEM, read_only=True, seconds=30, title="Read a file")
def read(arguments: ReadFile, context: ToolContext) -> str | dict[str, Any]:
    """Read a text file of the workspace, whole or by a range of lines, or an image or a PDF."""
    with files.open_file(*_find(context, arguments.path)) as file:
        if media_type := kind_of(file.peek(1)):
            return read_as_part(file, media_type, arguments.path, context)
        return read_lines(
            file,
            path=arguments.path,
            first=arguments.first_line,
            count=arguments.lines,
            context=context,
        )


@tool(
    category=Category.FILESYSTEM,
    effects=[Effect.FILES],
    idempotent=True,
    seconds=30,
    title="Write a file",
)
def write(arguments: WriteFile, context: ToolContext) -> str:
    """Write a text file in the workspace, with its folders. What was in it before is replaced."""
    content = _encoded(arguments.content)
    created = files.write_file(*_resolve(context, arguments.path, writing=True), content)
    return f"{'Created' if created else 'Replaced'} {arguments.path} ({len(content):,} bytes)."


@tool(category=Category.FILESYSTEM, effects=[Effect.FILES], seconds=30, title="Edit a file")
def edit(arguments: EditFile, context: ToolContext) -> str:
    """Replace a piece of text in a file of the workspace. The rest of the file stays as it is."""
    folder, path = _find(context, arguments.path, writing=True)
    with files.open_file(folder, path) as file:
        seen = os.fstat(file.fileno())
        if seen.st_size > LARGEST_EDIT:
            raise ToolFailed(f"{arguments.path} is too large to edit ({seen.st_size:,} bytes).")
        before = _decoded(file.read(LARGEST_EDIT + 1), arguments.path)
    count = before.count(arguments.old)
    if not count:
        raise ToolFailed(f"The text to replace does not occur in {arguments.path}. Read it again.")
    if count > 1 and not arguments.replace_all:
        raise ToolFailed(
            f"The text to replace occurs {count} times in {arguments.path}. "
            "Give more of the text around it, or set replace_all."
        )
    after = before.replace(arguments.old, arguments.new)
    files.write_file(folder, path, _encoded(after), replaces=seen)
    return f"Replaced {count} occurrence{'s' if count > 1 else ''} in {arguments.path}."


@tool(category=Category.FILESYSTEM, read_only=True, seconds=30, title="List a folder")
def list_directory(arguments: ListDirectory, context: ToolContext) -> str:
    """List the files and folders in a folder of the workspace."""
    entries = files.list_entries(*_resolve(context, arguments.path), limit=MOST_ENTRIES)
    if not entries:
        return f"{arguments.path} is empty."
    lines = [_line(entry) for entry in entries[:MOST_ENTRIES]]
    if len(entries) > MOST_ENTRIES:
        lines.append(f"[… and more: only {MOST_ENTRIES} are shown]")
    return "\n".join(lines)


def _line(entry: files.Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "link":
            return f"{entry.name} -> {entry.target}"
        case "file":
            return f"{entry.name} ({entry.size:,} bytes)"
        case _:
            return f"{entry.name} (not a regular file)"


def _resolve(context: ToolContext, path: str, *, writing: bool = False) -> tuple[Root, str]:
    folder = files.SessionFolder(workspace_id=context.workspace_id, session_id=context.session_id)
    return files.resolve_mount(folder, context.mounts, path, writing=writing)


def _find(context: ToolContext, path: str, *, writing: bool = False) -> tuple[Root, str]:
    """Return where a path leads. A bare name also finds the newest attached file of that name.

    People name a file as they know it; each attachment is stored in a folder of its own.
    """
    folder, inside = _resolve(context, path, writing=writing)
    if "/" in path or files.exists(folder, inside):
        return folder, inside
    return folder, files.find_upload(folder, path) or inside


def _encoded(text: str) -> bytes:
    return storable(text).encode()


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path} is not a UTF-8 text file.") from error
