"""Copies files of a remote store in, through fsspec, to be read.

Addresses of the web go through the guarded client. Object stores are read as anybody may read
them: the machine's own credentials are nobody's in a workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import fsspec  # type: ignore[import-untyped]
import httpx2

from agents.mount_input import STORES
from config.faults import EgressRefused, ResourceFailed
from sessions_app.preparing.job import (
    MOST_BYTES,
    MOST_FILES,
    Job,
    Prepared,
    give_away,
    make_below,
)
from tenants.egress import guarded_client
from tenants.redirects import following

#: The package that fsspec needs for a store, and what makes it read as a stranger would.
PACKAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "s3": ("s3fs", {"anon": True}),
    "gs": ("gcsfs", {"token": "anon"}),
    "gcs": ("gcsfs", {"token": "anon"}),
}
CHUNK = 1024 * 1024


def fetch_store(job: Job) -> Prepared:
    """A copy of the file or folder, as it is now."""
    scheme = urlsplit(job.resource.source_ref).scheme
    if scheme not in STORES:
        raise ResourceFailed(f"{scheme}:// is not a store that files are copied from.")
    if scheme in PACKAGES:
        _copy_objects(job, scheme)
    else:
        _download(job)
    return Prepared(source=job.into)


def _download(job: Job) -> None:
    """One file of the web."""
    name = PurePosixPath(unquote(urlsplit(job.resource.source_ref).path)).name or "index"
    try:
        with (
            guarded_client(total=job.seconds_left) as client,
            following(client, job.resource.source_ref) as answer,
        ):
            if answer.status_code != 200:
                raise ResourceFailed(f"The server answered {answer.status_code}.")
            _write(job, (_safe(name),), answer.iter_bytes(CHUNK), 0)
    except EgressRefused as fault:
        raise ResourceFailed(fault.detail) from fault
    except httpx2.HTTPError as error:
        raise ResourceFailed(f"It could not be fetched: {type(error).__name__}.") from error


def _copy_objects(job: Job, scheme: str) -> None:
    package, options = PACKAGES[scheme]
    if find_spec(package) is None:
        raise ResourceFailed(f"{scheme}:// needs the package {package}, which is not installed.")
    copy_tree(job, fsspec.filesystem(scheme, skip_instance_cache=True, **options))


def copy_tree(job: Job, store: Any) -> None:
    """Every file below the source, with its path from there on."""
    base = store._strip_protocol(job.resource.source_ref).rstrip("/")
    try:
        found = sorted(store.find(base))
        if len(found) > MOST_FILES:
            raise ResourceFailed(f"There are more than {MOST_FILES:,} files.")
        if not found:
            raise ResourceFailed("There is nothing at this address.")
        size = 0
        for path in found:
            below = path.removeprefix(base).strip("/") or PurePosixPath(path).name
            with store.open(path, "rb") as file:
                size = _write(job, tuple(map(_safe, below.split("/"))), _pieces(file), size)
    except OSError as error:
        raise ResourceFailed(f"The store could not be read: {type(error).__name__}.") from error


def _pieces(file: Any) -> Iterator[bytes]:
    while piece := file.read(CHUNK):
        yield piece


def _write(job: Job, names: tuple[str, ...], pieces: Iterator[bytes], size: int) -> int:
    """Write one file and answer with the size of all so far."""
    *folders, name = names
    path = make_below(job.into, tuple(folders)) / name
    with path.open("xb") as written:
        for piece in pieces:
            job.check()
            size += len(piece)
            if size > MOST_BYTES:
                raise ResourceFailed(f"It is larger than {MOST_BYTES // 1024 // 1024:,} MB.")
            written.write(piece)
    path.chmod(0o644)
    give_away(path)
    return size


def _safe(name: str) -> str:
    """A name that stays where it is put. Stores allow others."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name or len(name.encode()) > 200:
        raise ResourceFailed("The store holds a name that no file can have here.")
    return name
