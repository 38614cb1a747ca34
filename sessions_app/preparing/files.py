"""Directories that sessions of a workspace share, and files that were put into one session."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from uuid import UUID

from django.conf import settings

from config.faults import ResourceFailed, ToolFailed
from sessions_app.preparing.job import MOST_BYTES, Job, Prepared, give_away
from tools_app.files import open_file
from tools_app.folder import PASSABLE, PRIVATE, SessionFolder

CHUNK = 1024 * 1024


def share_directory(job: Job) -> Prepared:
    """The workspace's directory of this name, made when it is missing.

    It has one name and no path: below a directory that is mounted somewhere, a command could put a
    link in the way.
    """
    shared = shared_path(job.folder, job.resource.source_ref)
    for folder in (shared.parents[1], shared.parent):
        folder.mkdir(mode=PASSABLE, parents=True, exist_ok=True)
        folder.chmod(PASSABLE)  # the umask may have taken a bit
    try:
        shared.mkdir(mode=PRIVATE)
        give_away(shared)
    except FileExistsError:
        pass
    return Prepared(source=shared)


def shared_path(folder: SessionFolder, name: str) -> Path:
    return shared_room(folder.workspace_id) / name


def shared_room(workspace_id: UUID) -> Path:
    """The folder of what sessions of a workspace share."""
    return Path(settings.DATA_DIR) / "shared" / str(workspace_id)


def take_file(job: Job) -> Prepared:
    """A copy of a file of the session's own, as it is now."""
    name = PurePosixPath(job.resource.source_ref).name
    copy = job.into / name
    try:
        with open_file(job.folder, job.resource.source_ref) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise ResourceFailed(f"{name} is too large ({size:,} bytes).")
            with copy.open("xb") as written:
                while chunk := file.read(CHUNK):
                    job.check()
                    written.write(chunk)
                    if written.tell() > MOST_BYTES:
                        raise ResourceFailed(f"{name} is too large.")
    except ToolFailed as fault:
        raise ResourceFailed(fault.detail) from fault
    copy.chmod(0o644)
    give_away(copy)
    return Prepared(source=copy)
