"""Lists, uploads, opens and deletes files of a session's workspace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import PurePosixPath

from core.exceptions import Invalid, NotFound
from sessions_app.exceptions import SessionEnded
from sessions_app.models import Session
from tools_app.exceptions import DiskFull, FileTooLarge, QuotaExceeded, ToolFailed
from tools_app.files import Entry, SessionFolder, list_entries, open_file, remove, write_stream

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_LISTED = 1_000


def list_files(session: Session, path: str) -> list[Entry]:
    """Return the entries of a folder, subfolders first."""
    try:
        return list_entries(session_folder(session), path or ".", limit=MAX_LISTED)[:MAX_LISTED]
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def store_file(session: Session, path: str, chunks: Iterable[bytes]) -> bool:
    """Store a file atomically and return whether it is new. A file that is too large leaves nothing."""
    if session.archived_at:
        raise SessionEnded
    folder = session_folder(session)
    if not PurePosixPath(path).parts:
        raise Invalid("Enter a file name.")
    try:
        return write_stream(folder, path, _limit_size(chunks))
    except (DiskFull, QuotaExceeded):
        raise
    except ToolFailed as fault:
        raise Invalid(fault.detail) from fault


def open_stored(session: Session, path: str) -> BufferedReader:
    """Open a file for reading. The caller closes it."""
    try:
        with open_file(session_folder(session), path) as file:
            return os.fdopen(os.dup(file.fileno()), "rb")
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def remove_file(session: Session, path: str) -> None:
    """Delete a file or an empty folder."""
    try:
        remove(session_folder(session), path)
    except ToolFailed as fault:
        raise NotFound(fault.detail) from fault


def session_folder(session: Session) -> SessionFolder:
    return SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)


def _limit_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise FileTooLarge(
                f"The file is too large. The limit is {MAX_FILE_BYTES // 1024 // 1024} MB."
            )
        yield chunk
