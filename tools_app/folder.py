"""Where a session's files lie, and who owns them.

`DATA_DIR/sessions/<workspace>/<session>/workspace` is the only folder a session's tools and
commands can reach. When Switchyard runs as root, the folder belongs to a user without rights,
and commands run as that user.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings

#: How commands in a sandbox see the folder; models copy such paths from their output.
MOUNTED_AT = "/workspace"
#: A user that no distribution hands out. It needs no entry in /etc/passwd.
SANDBOX_UID = 60_999
#: Others may pass through, as the sandbox's user must, but not look around.
PASSABLE = 0o711
PRIVATE = 0o700


def acting_uid() -> int:
    """The user who owns the files of sessions and runs their commands."""
    return SANDBOX_UID if os.geteuid() == 0 else os.geteuid()


def acting_gid() -> int:
    return SANDBOX_UID if os.geteuid() == 0 else os.getegid()


@dataclass(frozen=True, kw_only=True)
class SessionFolder:
    workspace_id: UUID
    session_id: UUID

    @property
    def root(self) -> Path:
        """The session's own folder, of which nothing but `files` is shown to its commands."""
        return sessions_room(self.workspace_id) / str(self.session_id)

    @property
    def files(self) -> Path:
        return self.root / "workspace"

    def make(self) -> Path:
        """Create what is missing and return the folder of the session's files."""
        if not self._is_made():
            for folder in (_sessions(), self.root.parent, self.root):
                _make_passable(folder)
            self.files.mkdir(mode=PRIVATE, exist_ok=True)
            if os.geteuid() == 0:
                os.chown(self.files, acting_uid(), acting_gid(), follow_symlinks=False)
        return self.files

    def _is_made(self) -> bool:
        """Another thread may have made the folder and not yet given it away."""
        try:
            return self.files.stat().st_uid == acting_uid()
        except FileNotFoundError:
            return False


def _make_passable(folder: Path) -> None:
    try:
        folder.mkdir(mode=PASSABLE, parents=True)
    except FileExistsError:
        return
    folder.chmod(PASSABLE)  # the umask may have taken a bit


def sessions_room(workspace_id: UUID) -> Path:
    """The folder of all sessions of a workspace."""
    return _sessions() / str(workspace_id)


def _sessions() -> Path:
    return Path(settings.DATA_DIR) / "sessions"
