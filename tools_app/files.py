"""The files of a session, its own and those that are mounted into it.

No path leads out of its folder: every path is walked one name at a time from an open folder, and
no step follows a link. Whatever a command in the sandbox swaps meanwhile, each step lands in the
folder that was opened, or fails.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from django.conf import settings

from tools_app.exceptions import ToolFailed
from tools_app.storage import BLOCK, Reservation, Usage, give_back, reserving

if TYPE_CHECKING:
    from tools_app.sandbox.base import Mount


#: Where commands in a sandbox see the session's folder. Models copy such paths from their output.
WORKSPACE_PATH = "/workspace"
#: A uid that no distribution assigns. It needs no entry in /etc/passwd.
SANDBOX_UID = 60_999
#: The sandbox's user must pass through, but others cannot list the folder.
PASSABLE = 0o711
PRIVATE = 0o700


def sandbox_uid() -> int:
    """Return the user that owns the files of sessions and runs their commands."""
    return SANDBOX_UID if os.geteuid() == 0 else os.geteuid()


def sandbox_gid() -> int:
    return SANDBOX_UID if os.geteuid() == 0 else os.getegid()


def shared_dir(workspace_id: UUID) -> Path:
    """Return the folder of the directories that the workspace's sessions share."""
    return Path(settings.DATA_DIR) / "shared" / str(workspace_id)


@dataclass(frozen=True, kw_only=True)
class SessionFolder:
    workspace_id: UUID
    session_id: UUID

    @property
    def root(self) -> Path:
        """The session's folder. Its commands see nothing of it but `files`."""
        return sessions_dir(self.workspace_id) / str(self.session_id)

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
                os.chown(self.files, sandbox_uid(), sandbox_gid(), follow_symlinks=False)
        return self.files

    def _is_made(self) -> bool:
        """Check the owner too: another thread may have made the folder and not yet handed it over."""
        try:
            return self.files.stat().st_uid == sandbox_uid()
        except FileNotFoundError:
            return False


def _make_passable(folder: Path) -> None:
    try:
        folder.mkdir(mode=PASSABLE, parents=True)
    except FileExistsError:
        return
    folder.chmod(PASSABLE)  # The umask may have removed a bit.


def sessions_dir(workspace_id: UUID) -> Path:
    """Return the folder of all sessions of a workspace."""
    return _sessions() / str(workspace_id)


def _sessions() -> Path:
    return Path(settings.DATA_DIR) / "sessions"


MAX_DEPTH = 64
MAX_NAME_BYTES = 255
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Without O_NONBLOCK, opening a pipe without a writer would block for ever.
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Protocol):
    """A folder that paths are walked from: a session's own, or one that is mounted into it."""

    def make(self) -> Path: ...


def split_path(path: str) -> tuple[str, ...]:
    """Return the names of a path below the session's folder. Refuse any path that could lead out."""
    if path == WORKSPACE_PATH or path.startswith(WORKSPACE_PATH + "/"):
        path = path.removeprefix(WORKSPACE_PATH).lstrip("/")
    if path.startswith(("/", "~")):
        raise ToolFailed(f"{path} is outside the workspace. Give a path relative to the workspace.")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise ToolFailed(f"{path} contains '..'. Give a path without it.")
    if len(names) > MAX_DEPTH or not all(map(_can_exist, names)):
        raise ToolFailed("This is not a valid path.")
    return names


def _can_exist(name: str) -> bool:
    try:
        return "\0" not in name and len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


@contextmanager
def open_folder(folder: Root, names: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder that these names lead to."""
    with ExitStack() as stack:
        here = os.open(folder.make(), OPEN_FOLDER)
        stack.callback(os.close, here)
        for depth, name in enumerate(names, start=1):
            with _readable_errors("/".join(names[:depth]), here, name):
                made = create and _make_folder(here, name)
                here = os.open(name, OPEN_FOLDER, dir_fd=here)
            stack.callback(os.close, here)
            if made:
                chown_to_sandbox(here)
        yield here


@contextmanager
def open_file(folder: Root, path: str) -> Iterator[BufferedReader]:
    """Open a regular file for reading."""
    names = split_path(path)
    if not names:
        raise ToolFailed(f"{path or '.'} is a folder.")
    with open_folder(folder, names[:-1]) as parent, _readable_errors(path, parent, names[-1]):
        fd = os.open(names[-1], OPEN_FILE, dir_fd=parent)
    try:
        _check_ordinary(path, os.fstat(fd))
    except ToolFailed:
        os.close(fd)
        raise
    with os.fdopen(fd, "rb") as opened:
        yield opened


def write_file(
    folder: Root, path: str, content: bytes, *, replaces: os.stat_result | None = None
) -> bool:
    """Replace a file atomically and return whether it is new.

    With `replaces`, raise if the file is no longer the one that was read.
    """
    return write_stream(folder, path, [content], replaces=replaces)


def write_stream(
    folder: Root, path: str, pieces: Iterable[bytes], *, replaces: os.stat_result | None = None
) -> bool:
    """Replace a file atomically with content that comes in pieces, and return whether it is new.

    Readers see the old file or the new one, never a part. If the pieces fail, nothing changes.
    """
    names = split_path(path)
    if not names:
        raise ToolFailed(f"{path or '.'} is a folder.")
    with (
        reserving(folder.make()) as reservation,
        open_folder(folder, names[:-1], create=replaces is None) as parent,
        _readable_errors(path, parent, names[-1]),
    ):
        before = stat_entry(parent, names[-1])
        if before:
            _check_ordinary(path, before)
        if replaces and (before is None or _fingerprint(before) != _fingerprint(replaces)):
            raise ToolFailed(f"{path} was changed meanwhile. Read it again.")
        reservation.take(BLOCK, files=1)
        mode = stat.S_IMODE(before.st_mode) if before else 0o644
        _replace_file(parent, names[-1], _reserved(pieces, reservation), mode=mode)
        if before:
            give_back(folder.make(), _stored(before))
        return before is None


def _reserved(pieces: Iterable[bytes], reservation: Reservation) -> Iterator[bytes]:
    """Pass pieces on once there is room for them on the disk and in the quotas."""
    for piece in pieces:
        reservation.take(len(piece))
        yield piece


def _stored(seen: os.stat_result) -> Usage:
    return Usage(seen.st_blocks * 512, 1)


def remove(folder: Root, path: str) -> None:
    """Delete a file, an empty folder, or a link itself."""
    names = split_path(path)
    if not names:
        raise ToolFailed("The workspace itself cannot be deleted.")
    with open_folder(folder, names[:-1]) as parent:
        seen = stat_entry(parent, names[-1])
        try:
            if seen and stat.S_ISDIR(seen.st_mode):
                os.rmdir(names[-1], dir_fd=parent)
            else:
                os.unlink(names[-1], dir_fd=parent)
        except OSError as error:
            raise ToolFailed(f"{path}: {error.strerror}.") from error
        if seen and seen.st_nlink <= 1:
            give_back(folder.make(), _stored(seen))


def _replace_file(parent: int, name: str, pieces: Iterable[bytes], *, mode: int) -> None:
    temporary = f".{token_hex(8)}.part"
    opened = os.fdopen(os.open(temporary, CREATE_FILE, 0o600, dir_fd=parent), "wb")
    try:
        with opened:
            for piece in pieces:
                opened.write(piece)
            opened.flush()
            chown_to_sandbox(opened.fileno())
            os.fchmod(opened.fileno(), mode & 0o777)
            os.fsync(opened.fileno())
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(temporary, dir_fd=parent)
        raise


def chown_to_sandbox(fd: int) -> None:
    """Hand a file that root created to the user that runs the session's commands."""
    if os.geteuid() == 0:
        os.fchown(fd, sandbox_uid(), sandbox_gid())


def _make_folder(here: int, name: str) -> bool:
    """Create a folder if it is missing, and return whether it was."""
    try:
        os.mkdir(name, 0o755, dir_fd=here)
    except FileExistsError:
        return False
    return True


def stat_entry(here: int, name: str) -> os.stat_result | None:
    """Return the status of an entry, of a link itself and not of its target; None without one."""
    try:
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError:
        return None


def _fingerprint(seen: os.stat_result) -> tuple[int, int, int]:
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def _check_ordinary(path: str, seen: os.stat_result) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise ToolFailed(f"{path} is a folder. List it with list_directory.")
    if stat.S_ISLNK(seen.st_mode):
        raise ToolFailed(f"{path} is a link. Links are not followed; use the path it points to.")
    if not stat.S_ISREG(seen.st_mode):
        raise ToolFailed(f"{path} is not a regular file.")
    # A command cannot make a hard link to a file that it does not own, so another user did.
    if seen.st_nlink > 1 and seen.st_uid != sandbox_uid():
        raise ToolFailed(f"{path} is a hard link to a file of another user.")


@contextmanager
def _readable_errors(path: str, here: int, name: str) -> Iterator[None]:
    """Raise ToolFailed with a readable reason for an error of the operating system."""
    try:
        yield
    except OSError as error:
        seen = stat_entry(here, name)
        if seen and stat.S_ISLNK(seen.st_mode):
            raise ToolFailed(
                f"{path} is a link. Links are not followed; use the path it points to."
            ) from error
        raise ToolFailed(f"{path}: {error.strerror}.") from error


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of a folder. Links are shown with their target and never followed."""

    name: str
    kind: str
    size: int = 0
    target: str = ""


#: Where the chat stores attached files, each in a folder of its own.
UPLOADS = "uploads"
MOST_UPLOADS = 1_000


def exists(folder: Root, path: str) -> bool:
    names = split_path(path)
    if not names:
        return True
    try:
        with open_folder(folder, names[:-1]) as parent:
            return stat_entry(parent, names[-1]) is not None
    except ToolFailed:
        return False


def find_upload(folder: Root, name: str) -> str | None:
    """Return the path of the newest attached file of this name, in any case."""
    found: list[tuple[int, str]] = []
    try:
        places = list_entries(folder, UPLOADS, limit=MOST_UPLOADS)
    except ToolFailed:
        return None
    for place in (one.name for one in places if one.kind == "folder"):
        with suppress(ToolFailed), open_folder(folder, (UPLOADS, place)) as here:
            for file in os.listdir(here):
                seen = stat_entry(here, file) if file.casefold() == name.casefold() else None
                if seen:
                    found.append((seen.st_mtime_ns, f"{UPLOADS}/{place}/{file}"))
    return max(found)[1] if found else None


def list_entries(folder: Root, path: str, *, limit: int) -> list[Entry]:
    """Return the entries of a folder, folders first: at most one more than `limit`.

    The extra entry tells that there are more.
    """
    with open_folder(folder, split_path(path)) as here, os.scandir(here) as found:
        entries = [_entry(here, item) for item in islice(found, limit + 1)]
    return sorted(entries, key=lambda entry: (entry.kind != "folder", entry.name))


def _entry(here: int, item: os.DirEntry[str]) -> Entry:
    name = _printable(item.name)
    if item.is_symlink():
        return Entry(name=name, kind="link", target=_target(here, item.name))
    if item.is_dir(follow_symlinks=False):
        return Entry(name=name, kind="folder")
    if not item.is_file(follow_symlinks=False):
        return Entry(name=name, kind="other")
    seen = stat_entry(here, item.name)
    return Entry(name=name, kind="file", size=seen.st_size if seen else 0)


def _target(here: int, name: str) -> str:
    try:
        return _printable(os.readlink(name, dir_fd=here))
    except OSError:
        return "?"


def _printable(name: str) -> str:
    """Replace what is not printable: a name may hold any bytes, and a listing is text."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


HOME = PurePosixPath(WORKSPACE_PATH).parts[1:]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_inside_workspace(path: str) -> bool:
    """Return whether a path names something below the session's files, in its spelling alone."""
    pure = PurePosixPath(path)
    if not pure.name or ".." in pure.parts or _CONTROL.search(path):
        return False
    return not pure.is_absolute() or pure.is_relative_to(WORKSPACE_PATH)


@dataclass(frozen=True, kw_only=True)
class MountedFolder:
    """A mounted folder as the root that paths are walked from."""

    source: Path

    def make(self) -> Path:
        return self.source


def resolve_mount(
    folder: SessionFolder, mounts: Sequence[Mount], path: str, *, writing: bool = False
) -> tuple[Root, str]:
    """Return the root that a path lies in, and the path from there on."""
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    whole = names if path.startswith("/") else (*HOME, *names)
    for mount in mounts:
        target = PurePosixPath(mount.target).parts[1:]
        if whole[: len(target)] == target:
            return _inside_mount(mount, "/".join(whole[len(target) :]), path, writing=writing)
    return folder, path


def _inside_mount(mount: Mount, rest: str, path: str, *, writing: bool) -> tuple[Root, str]:
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
    """Create the mount points that lie inside the session's folder, following no link.

    A link that a command left there would otherwise redirect the mount.
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
    seen = stat_entry(parent, name)
    if seen is None:
        fd = os.open(name, CREATE_FILE, 0o644, dir_fd=parent)
        try:
            chown_to_sandbox(fd)
        finally:
            os.close(fd)
    elif not stat.S_ISREG(seen.st_mode):
        raise ToolFailed(f"{target} cannot be mounted: something that is not a file is in its way.")
