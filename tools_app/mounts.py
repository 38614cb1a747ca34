"""Finds which folder a tool's path lies in: the session's own, or one that is mounted over it.

A mount is a root of its own: its path is walked from the mounted folder on, by the same rules that
let no path out of the session's folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from config.faults import ToolFailed
from tools_app.files import CREATE_FILE, Root, give_away, look, open_folder
from tools_app.folder import MOUNTED_AT, SessionFolder

if TYPE_CHECKING:
    from tools_app.sandbox.base import Mount

HOME = PurePosixPath(MOUNTED_AT).parts[1:]


@dataclass(frozen=True, kw_only=True)
class MountedFolder:
    """A mounted folder as the root of paths."""

    source: Path

    def make(self) -> Path:
        return self.source


def reach(
    folder: SessionFolder, mounts: Sequence[Mount], path: str, *, writing: bool = False
) -> tuple[Root, str]:
    """The folder that a path lies in, and the path from there on."""
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    whole = names if path.startswith("/") else (*HOME, *names)
    for mount in mounts:
        target = PurePosixPath(mount.target).parts[1:]
        if whole[: len(target)] == target:
            return _inside(mount, "/".join(whole[len(target) :]), path, writing=writing)
    return folder, path


def _inside(mount: Mount, rest: str, path: str, *, writing: bool) -> tuple[Root, str]:
    if mount.source is None:
        raise ToolFailed(f"{mount.target} could not be prepared: {mount.missing}")
    if writing and not mount.writable:
        raise ToolFailed(f"{path} cannot be changed: {mount.target} is mounted read-only.")
    if mount.source.is_dir():
        return MountedFolder(source=mount.source), rest or "."
    if rest:
        raise ToolFailed(f"{mount.target} is a file, not a folder.")
    return MountedFolder(source=mount.source.parent), mount.source.name


def make_mount_points(folder: SessionFolder, mounts: Sequence[Mount]) -> None:
    """Make what is mounted inside the session's folder a place there, following no link.

    Otherwise a link that a command has left there would lead the mount elsewhere.
    """
    for mount in mounts:
        names = PurePosixPath(mount.target).parts[1:]
        if mount.source is None or names[: len(HOME)] != HOME:
            continue
        below = names[len(HOME) :]
        if mount.source.is_dir():
            with open_folder(folder, below, create=True):
                pass
        else:
            with open_folder(folder, below[:-1], create=True) as parent:
                _make_file(parent, below[-1], mount.target)


def _make_file(parent: int, name: str, target: str) -> None:
    seen = look(parent, name)
    if seen is None:
        fd = os.open(name, CREATE_FILE, 0o644, dir_fd=parent)
        try:
            give_away(fd)
        finally:
            os.close(fd)
    elif not stat.S_ISREG(seen.st_mode):
        raise ToolFailed(f"{target} is in the way of what is mounted there: it is not a file.")
