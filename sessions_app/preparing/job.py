"""One resource on its way into a sandbox: where it is made, and how long that may take."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from config.faults import ResourceFailed, RunStopped
from sessions_app.models import ResourceAttachment
from tools_app.folder import SessionFolder, acting_gid, acting_uid

#: What one resource may bring along.
MOST_BYTES = 512 * 1024 * 1024
MOST_FILES = 50_000
SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What is mounted, and the words in it that nobody is shown."""

    source: Path
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    resource: ResourceAttachment
    folder: SessionFolder
    agent_id: UUID
    #: An empty folder of this resource's own, which no command has ever seen.
    into: Path
    stopped: threading.Event
    #: On the clock of `time.monotonic()`.
    until: float

    @property
    def writable(self) -> bool:
        return self.resource.access == ResourceAttachment.Access.READ_WRITE

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def check(self) -> None:
        """Raise when the run was stopped or the time is up."""
        if self.stopped.is_set():
            raise RunStopped("interrupted")
        if not self.seconds_left:
            raise ResourceFailed(f"It was not ready within {SECONDS:.0f} seconds.")


def give_away(path: Path) -> None:
    """What root makes must belong to the user who runs the session's commands."""
    if os.geteuid() == 0:
        os.chown(path, acting_uid(), acting_gid(), follow_symlinks=False)


def put(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a new file into a folder that no command can reach yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    path.chmod(mode)
    give_away(path)


def make_below(folder: Path, names: tuple[str, ...]) -> Path:
    """The folder that these names lead to, made where it is missing."""
    for name in names:
        folder = folder / name
        if not folder.is_dir():
            folder.mkdir(mode=0o755)
            give_away(folder)
    return folder
