"""Lists, uploads, opens, copies and deletes files of a session's workspace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import PurePosixPath

from core.exceptions import Conflict, Invalid, NotFound
from sessions_app.exceptions import SessionEnded
from sessions_app.models import Session
from tools_app.exceptions import DiskFull, FileTooLarge, QuotaExceeded, ToolFailed
from tools_app.files import Entry, SessionFolder, list_entries, open_file, remove, write_stream
from tools_app.storage import settle_path

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_LISTED = 1_000
#: What a branch copies from its session.
MOST_COPIED, MOST_COPIED_BYTES = 1_000, 100 * 1024 * 1024


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


def copy_files(source: Session, target: Session) -> None:
    """Copy the ordinary files of a session to another one, or raise if they are too many."""
    files = list(islice(_walk(session_folder(source), ""), MOST_COPIED + 1))
    size = sum(entry.size for _, entry in files)
    if len(files) > MOST_COPIED or size > MOST_COPIED_BYTES:
        raise Conflict(
            f"A branch copies at most {MOST_COPIED:,} files and {MOST_COPIED_BYTES // 1024**2} MB, "
            "and this chat has more. Fork it instead."
        )
    for path, _ in files:
        with suppress(NotFound), open_stored(source, path) as file:
            store_file(target, path, iter(partial(file.read, 1 << 20), b""))


def _walk(folder: SessionFolder, path: str) -> Iterator[tuple[str, Entry]]:
    with suppress(ToolFailed):
        for entry in list_entries(folder, path or ".", limit=MAX_LISTED):
            below = f"{path}/{entry.name}" if path else entry.name
            if entry.kind == "folder":
                yield from _walk(folder, below)
            elif entry.kind == "file":
                yield below, entry


def remove_session_files(session: Session) -> None:
    """Delete all files of a session that is gone."""
    folder = session_folder(session)
    shutil.rmtree(folder.root, ignore_errors=True)
    settle_path(folder.root)


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
