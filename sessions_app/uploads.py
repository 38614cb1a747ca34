"""The files of a session's workspace, as people and programs put them there and take them out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import PurePosixPath

from config.faults import Conflict, FileTooLarge, Invalid, NotFound, SessionEnded, ToolFailed
from sessions_app.models import Session
from tools_app.files import open_file, remove, write_stream
from tools_app.folder import SessionFolder
from tools_app.listing import Entry, list_entries

LARGEST_FILE = 64 * 1024 * 1024
MOST_LISTED = 1_000
#: The machine keeps this much of its disk, whatever is uploaded.
DISK_RESERVE = 512 * 1024 * 1024


def list_files(session: Session, path: str) -> list[Entry]:
    """The names in a folder of the workspace, folders first."""
    try:
        return list_entries(folder_of(session), path or ".", limit=MOST_LISTED)[:MOST_LISTED]
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def store_file(session: Session, path: str, pieces: Iterable[bytes]) -> bool:
    """Put a file in place at once, and say whether it is new. A larger one leaves nothing behind."""
    if session.archived_at:
        raise SessionEnded
    folder = folder_of(session)
    if shutil.disk_usage(folder.make()).free < DISK_RESERVE + LARGEST_FILE:
        raise Conflict("The disk of this machine is nearly full.")
    if not PurePosixPath(path).parts:
        raise Invalid("A file needs a name.")
    try:
        return write_stream(folder, path, _bounded(pieces))
    except ToolFailed as fault:
        raise Invalid(fault.detail) from fault


def open_stored(session: Session, path: str) -> BufferedReader:
    """A file to be read, and closed by the caller."""
    try:
        with open_file(folder_of(session), path) as file:
            return os.fdopen(os.dup(file.fileno()), "rb")
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def remove_file(session: Session, path: str) -> None:
    """Take away a file or an empty folder."""
    try:
        remove(folder_of(session), path)
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def folder_of(session: Session) -> SessionFolder:
    return SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LARGEST_FILE:
            raise FileTooLarge(f"A file has at most {LARGEST_FILE // 1024 // 1024} MB.")
        yield piece
