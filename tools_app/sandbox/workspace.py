"""The part of a sandbox that is the same for every kind: the files of its session.

They lie on this machine and are reached without a command, so they can be read and written
whether the sandbox runs or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools_app.files import open_file, write_file
from tools_app.folder import SessionFolder
from tools_app.listing import Entry, list_entries
from tools_app.mounts import make_mount_points
from tools_app.sandbox import host
from tools_app.sandbox.base import Limits, Mount
from tools_app.sandbox.network import NO_NETWORK, Network

MOST_BYTES = 64 * 1024 * 1024
MOST_ENTRIES = 10_000


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """What every kind of sandbox is made from, and its files."""

    folder: SessionFolder
    limits: Limits
    network: Network = NO_NETWORK
    mounts: tuple[Mount, ...] = ()

    def make(self) -> Path:
        """The session's folder, with a place in it for whatever is mounted there."""
        files = self.folder.make()
        host.check_passable(files)
        make_mount_points(self.folder, self.mounts)
        return files

    def read(self, path: str, *, limit: int = MOST_BYTES) -> bytes:
        with open_file(self.folder, path) as file:
            return file.read(limit)

    def write(self, path: str, content: bytes) -> bool:
        return write_file(self.folder, path, content)

    def list(self, path: str = ".", *, limit: int = MOST_ENTRIES) -> Sequence[Entry]:
        return list_entries(self.folder, path, limit=limit)
