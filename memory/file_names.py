"""Names for the files of an export that every file system can hold beside each other.

Some take `Notes.md` and `notes.md` for one name, and none has a file and a folder of one name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import accumulate


def file_names(paths: Iterable[str]) -> dict[str, str]:
    """The name of each document's file: its path, or one that no other file gets."""
    paths = list(paths)
    folders: dict[str, str] = {}  # As each was first spelt.
    for path in paths:
        for folder in _folders(path):
            folders.setdefault(_key(folder), folder)
    taken = set(folders)
    names: dict[str, str] = {}
    for path in paths:
        above, slash, last = path.rpartition("/")
        wanted = f"{folders[_key(above)]}{slash}{last}" if above else path
        names[path] = name = _free(wanted, taken)
        taken.add(_key(name))
    return names


def _folders(path: str) -> Iterable[str]:
    """Every folder above a file, the outermost first."""
    return accumulate(path.split("/")[:-1], lambda above, name: f"{above}/{name}")


def _key(name: str) -> str:
    """What the least particular file system makes of a name."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _free(name: str, taken: set[str]) -> str:
    stem, dot, kind = name.rpartition(".") if "." in name.rpartition("/")[2] else (name, "", "")
    tried, number = name, 1
    while _key(tried) in taken:
        number += 1
        tried = f"{stem} ({number}){dot}{kind}"
    return tried
