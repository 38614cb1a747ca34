"""The files of one session, with no way out of its folder.

Every path is walked one name at a time from an open folder, and no step follows a link. So it
does not matter what a command in the sandbox swaps while a tool is at work: each step lands in
the folder that was opened, or fails.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from config.faults import ToolFailed
from tools_app.folder import MOUNTED_AT, acting_gid, acting_uid

DEEPEST = 64
LONGEST_NAME = 255
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Protocol):
    """A folder that paths are walked from: a session's own, or one mounted into it."""

    def make(self) -> Path: ...


def split(path: str) -> tuple[str, ...]:
    """The names of a path below the session's folder. Anything that could lead out is refused."""
    if path == MOUNTED_AT or path.startswith(MOUNTED_AT + "/"):
        path = path.removeprefix(MOUNTED_AT).lstrip("/")
    if path.startswith(("/", "~")):
        raise ToolFailed(f"{path} lies outside the workspace. Give a path relative to it.")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise ToolFailed(f"{path} may lead out of the workspace. Give a path without '..'.")
    if len(names) > DEEPEST or not all(map(_can_exist, names)):
        raise ToolFailed("This is not a path that can exist.")
    return names


def _can_exist(name: str) -> bool:
    try:
        return "\0" not in name and len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


@contextmanager
def open_folder(folder: Root, names: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder that these names lead to."""
    with ExitStack() as stack:
        here = os.open(folder.make(), OPEN_FOLDER)
        stack.callback(os.close, here)
        for depth, name in enumerate(names, start=1):
            with _told("/".join(names[:depth]), here, name):
                made = create and _make_folder(here, name)
                here = os.open(name, OPEN_FOLDER, dir_fd=here)
            stack.callback(os.close, here)
            if made:
                give_away(here)
        yield here


@contextmanager
def open_file(folder: Root, path: str) -> Iterator[BufferedReader]:
    """An ordinary file, opened for reading."""
    names = split(path)
    if not names:
        raise ToolFailed(f"{path or '.'} is a folder.")
    with open_folder(folder, names[:-1]) as parent, _told(path, parent, names[-1]):
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
    """Put the whole content in place at once, and say whether the file is new.

    With `replaces`, the file must still be the one that was read.
    """
    return write_stream(folder, path, [content], replaces=replaces)


def write_stream(
    folder: Root, path: str, pieces: Iterable[bytes], *, replaces: os.stat_result | None = None
) -> bool:
    """The same for content that comes in pieces. If they fail, nothing is changed.

    Readers see the old file or the new one, never a part.
    """
    names = split(path)
    if not names:
        raise ToolFailed(f"{path or '.'} is a folder.")
    with (
        open_folder(folder, names[:-1], create=replaces is None) as parent,
        _told(path, parent, names[-1]),
    ):
        before = look(parent, names[-1])
        if before:
            _check_ordinary(path, before)
        if replaces and (before is None or _state(before) != _state(replaces)):
            raise ToolFailed(f"{path} was changed by somebody else meanwhile. Read it again.")
        _put(parent, names[-1], pieces, mode=stat.S_IMODE(before.st_mode) if before else 0o644)
        return before is None


def remove(folder: Root, path: str) -> None:
    """Take away a file, a link itself, or an empty folder."""
    names = split(path)
    if not names:
        raise ToolFailed("The workspace itself stays.")
    with open_folder(folder, names[:-1]) as parent:
        seen = look(parent, names[-1])
        try:
            if seen and stat.S_ISDIR(seen.st_mode):
                os.rmdir(names[-1], dir_fd=parent)
            else:
                os.unlink(names[-1], dir_fd=parent)
        except OSError as error:
            raise ToolFailed(f"{path}: {error.strerror}.") from error


def _put(parent: int, name: str, pieces: Iterable[bytes], *, mode: int) -> None:
    beside = f".{token_hex(8)}.part"
    opened = os.fdopen(os.open(beside, CREATE_FILE, 0o600, dir_fd=parent), "wb")
    try:
        with opened:
            for piece in pieces:
                opened.write(piece)
            opened.flush()
            give_away(opened.fileno())
            os.fchmod(opened.fileno(), mode & 0o777)
            os.fsync(opened.fileno())
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        os.unlink(beside, dir_fd=parent)
        raise


def give_away(fd: int) -> None:
    """What root makes must belong to the user who runs the session's commands."""
    if os.geteuid() == 0:
        os.fchown(fd, acting_uid(), acting_gid())


def _make_folder(here: int, name: str) -> bool:
    """Whether a folder was missing and made."""
    try:
        os.mkdir(name, 0o755, dir_fd=here)
    except FileExistsError:
        return False
    return True


def look(here: int, name: str) -> os.stat_result | None:
    """What lies under this name, a link itself and not what it leads to."""
    try:
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError:
        return None


def _state(seen: os.stat_result) -> tuple[int, int, int]:
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def _check_ordinary(path: str, seen: os.stat_result) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise ToolFailed(f"{path} is a folder. List it with list_directory.")
    if stat.S_ISLNK(seen.st_mode):
        raise ToolFailed(f"{path} is a link. Links are not followed; give the path it stands for.")
    if not stat.S_ISREG(seen.st_mode):
        raise ToolFailed(f"{path} is not an ordinary file.")
    # No command can make a second name for a file it does not own, so somebody outside did.
    if seen.st_nlink > 1 and seen.st_uid != acting_uid():
        raise ToolFailed(f"{path} is a second name of a file that belongs to somebody else.")


@contextmanager
def _told(path: str, here: int, name: str) -> Iterator[None]:
    """Say in words why the system refused."""
    try:
        yield
    except OSError as error:
        seen = look(here, name)
        if seen and stat.S_ISLNK(seen.st_mode):
            raise ToolFailed(
                f"{path} is a link. Links are not followed; give the path it stands for."
            ) from error
        raise ToolFailed(f"{path}: {error.strerror}.") from error
