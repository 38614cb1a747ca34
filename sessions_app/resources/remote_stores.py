"""Copies files from the web or from an object store, through fsspec.

Web addresses go through the guarded HTTP client. Object stores are read anonymously, because no
workspace may use the machine's own credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import fsspec  # type: ignore[import-untyped]
import httpx2

from agents.mounts import STORES
from core.exceptions import EgressRefused
from core.http import following, guarded_client
from sessions_app.resources.prepare import (
    CHUNK,
    MAX_BYTES,
    MAX_FILES,
    Job,
    Prepared,
    chown_to_sandbox_user,
    make_dirs,
)
from tools_app.exceptions import ResourceFailed

#: The package that fsspec needs for a store, and the options that make it read anonymously.
PACKAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "s3": ("s3fs", {"anon": True}),
    "gs": ("gcsfs", {"token": "anon"}),
    "gcs": ("gcsfs", {"token": "anon"}),
}


def copy_remote_store(job: Job) -> Prepared:
    """Copy the remote file or folder."""
    scheme = urlsplit(job.resource.source_ref).scheme
    if scheme not in STORES:
        raise ResourceFailed(f"{scheme}:// is not a supported store.")
    if scheme in PACKAGES:
        _copy_objects(job, scheme)
    else:
        _download(job)
    return Prepared(source=job.into)


def _download(job: Job) -> None:
    name = PurePosixPath(unquote(urlsplit(job.resource.source_ref).path)).name or "index"
    try:
        with (
            guarded_client(total=job.seconds_left) as client,
            following(client, job.resource.source_ref) as response,
        ):
            if response.status_code != 200:
                raise ResourceFailed(f"The server answered {response.status_code}.")
            _write(job, (_check_name(name),), response.iter_bytes(CHUNK), 0)
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
    """Copy every file below the source, with its path relative to it."""
    base = store._strip_protocol(job.resource.source_ref).rstrip("/")
    try:
        paths = sorted(store.find(base))
        if len(paths) > MAX_FILES:
            raise ResourceFailed(f"There are more than {MAX_FILES:,} files.")
        if not paths:
            raise ResourceFailed("There is nothing at this address.")
        size = 0
        for path in paths:
            relative = path.removeprefix(base).strip("/") or PurePosixPath(path).name
            names = tuple(map(_check_name, relative.split("/")))
            with store.open(path, "rb") as file:
                size = _write(job, names, iter(partial(file.read, CHUNK), b""), size)
    except OSError as error:
        raise ResourceFailed(f"The store could not be read: {type(error).__name__}.") from error


def _write(job: Job, names: tuple[str, ...], chunks: Iterator[bytes], size: int) -> int:
    """Write one file and return the total size so far."""
    *folders, name = names
    path = make_dirs(job.into, tuple(folders)) / name
    with path.open("xb") as written:
        for chunk in chunks:
            job.check()
            size += len(chunk)
            if size > MAX_BYTES:
                raise ResourceFailed(f"It is larger than {MAX_BYTES // 1024 // 1024:,} MB.")
            written.write(chunk)
    path.chmod(0o644)
    chown_to_sandbox_user(path)
    return size


def _check_name(name: str) -> str:
    """Return the name, or raise if it is not a plain file name. Stores allow any key."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name or len(name.encode()) > 200:
        raise ResourceFailed("The store contains a name that is not a valid file name.")
    return name
