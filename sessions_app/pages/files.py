"""The files of a session, a folder at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from config.faults import NotFound
from sessions_app.models import Session
from sessions_app.uploads import MOST_LISTED, list_files


@dataclass(frozen=True, kw_only=True)
class ShownFile:
    name: str
    kind: str
    size: str
    target: str
    #: Where it opens or is saved from; nothing for links, which are never followed.
    url: str


@dataclass(frozen=True, kw_only=True)
class Folder:
    #: The way from the top, each part with its address.
    way: list[tuple[str, str]]
    rows: list[ShownFile]
    is_full: bool


def show_files(session: Session, path: str) -> Folder:
    """The names in a folder. The top of a session that has no files yet is empty, not missing."""
    place = PurePosixPath(path)
    try:
        entries = list_files(session, path)
    except NotFound:
        if place.parts:
            raise
        entries = []
    rows = []
    for entry in entries:
        inner = str(place / entry.name)
        url = ""
        if entry.kind == "folder":
            url = f"?path={quote(inner)}"
        elif entry.kind == "file":
            url = reverse("session-file", args=[session.pk, inner])
        size = filesizeformat(entry.size) if entry.kind == "file" else ""
        rows.append(
            ShownFile(name=entry.name, kind=entry.kind, size=size, target=entry.target, url=url)
        )
    parts = [part for part in place.parts if part != "."]
    way = [(name, f"?path={quote('/'.join(parts[: n + 1]))}") for n, name in enumerate(parts)]
    return Folder(way=way, rows=rows, is_full=len(entries) >= MOST_LISTED)
