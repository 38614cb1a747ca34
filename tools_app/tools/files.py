"""Tools on the files of the session's workspace."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field

from config.faults import ToolFailed
from tools_app.clip import storable
from tools_app.files import Root, open_file, write_file
from tools_app.folder import SessionFolder
from tools_app.listing import Entry, list_entries
from tools_app.mounts import reach
from tools_app.reading import read_lines
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

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
def read(arguments: ReadFile, context: ToolContext) -> str:
    """Read a text file of the workspace, whole or by a range of lines."""
    with open_file(*_reach(context, arguments.path)) as file:
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
    created = write_file(*_reach(context, arguments.path, writing=True), content)
    return f"{'Created' if created else 'Replaced'} {arguments.path} ({len(content):,} bytes)."


@tool(category=Category.FILESYSTEM, effects=[Effect.FILES], seconds=30, title="Edit a file")
def edit(arguments: EditFile, context: ToolContext) -> str:
    """Replace a piece of text in a file of the workspace. The rest of the file stays as it is."""
    folder, path = _reach(context, arguments.path, writing=True)
    with open_file(folder, path) as file:
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
    write_file(folder, path, _encoded(after), replaces=seen)
    return f"Replaced {count} occurrence{'s' if count > 1 else ''} in {arguments.path}."


@tool(category=Category.FILESYSTEM, read_only=True, seconds=30, title="List a folder")
def list_directory(arguments: ListDirectory, context: ToolContext) -> str:
    """List the files and folders in a folder of the workspace."""
    entries = list_entries(*_reach(context, arguments.path), limit=MOST_ENTRIES)
    if not entries:
        return f"{arguments.path} is empty."
    lines = [_line(entry) for entry in entries[:MOST_ENTRIES]]
    if len(entries) > MOST_ENTRIES:
        lines.append(f"[… and more: only {MOST_ENTRIES} are shown]")
    return "\n".join(lines)


def _line(entry: Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "link":
            return f"{entry.name} -> {entry.target}"
        case "file":
            return f"{entry.name} ({entry.size:,} bytes)"
        case _:
            return f"{entry.name} (not an ordinary file)"


def _reach(context: ToolContext, path: str, *, writing: bool = False) -> tuple[Root, str]:
    folder = SessionFolder(workspace_id=context.workspace_id, session_id=context.session_id)
    return reach(folder, context.mounts, path, writing=writing)


def _encoded(text: str) -> bytes:
    return storable(text).encode()


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path} is not a UTF-8 text file.") from error
