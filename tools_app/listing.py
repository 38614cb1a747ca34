"""Lists the folders of a session's workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice

from tools_app.files import Root, look, open_folder, split


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One name in a folder. Links are shown with what they stand for, and never followed."""

    name: str
    kind: str
    size: int = 0
    target: str = ""


def list_entries(folder: Root, path: str, *, limit: int) -> list[Entry]:
    """The names in a folder, folders first. One more than `limit` says that there are more."""
    with open_folder(folder, split(path)) as here, os.scandir(here) as found:
        entries = [_entry(here, item) for item in islice(found, limit + 1)]
    return sorted(entries, key=lambda entry: (entry.kind != "folder", entry.name))


def _entry(here: int, item: os.DirEntry[str]) -> Entry:
    name = _shown(item.name)
    if item.is_symlink():
        return Entry(name=name, kind="link", target=_target(here, item.name))
    if item.is_dir(follow_symlinks=False):
        return Entry(name=name, kind="folder")
    if not item.is_file(follow_symlinks=False):
        return Entry(name=name, kind="other")
    seen = look(here, item.name)
    return Entry(name=name, kind="file", size=seen.st_size if seen else 0)


def _target(here: int, name: str) -> str:
    try:
        return _shown(os.readlink(name, dir_fd=here))
    except OSError:
        return "?"


def _shown(name: str) -> str:
    """A name may hold any bytes; a listing is text with one name on a line."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
