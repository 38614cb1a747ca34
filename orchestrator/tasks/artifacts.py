"""The files that a task produced: copied out of its sandbox by hash, and read again.

The copies are out of reach of commands, so a download is exactly what was collected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, cast

from core.exceptions import NotFound
from core.validation import storable
from orchestrator.models import Step, Workflow
from orchestrator.tasks.sandbox import TaskSandbox, task_folder
from tools_app.exceptions import ToolFailed
from tools_app.files import open_file, open_folder
from tools_app.storage import Reservation, reserving

#: The step that collects artifacts; they are found again by its name.
COLLECT = "collect artifacts"
FOLDER = "artifacts"
MAX_FILES = 200
MAX_VISITED = 20_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024
CHUNK = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Artifact:
    path: str
    size: int
    sha256: str


def collect(sandbox: TaskSandbox, given: dict[str, str]) -> dict[str, Any]:
    """Copy the files in `artifacts/`, else every file that is not in `given` (hashes by path)."""
    named = list(_paths(sandbox, f"{FOLDER}/"))
    found: list[Artifact] = []
    left_out = 0
    room = MAX_TOTAL_BYTES
    for path in named or _paths(sandbox):
        if len(found) >= MAX_FILES:
            left_out += 1
            continue
        copy = _copy(sandbox, path, min(MAX_FILE_BYTES, room))
        if copy is None:
            left_out += 1
        elif given.get(path) != copy.sha256:
            found.append(copy)
            room -= copy.size
    return as_output(found, left_out)


def as_output(made: list[Artifact], left_out: int = 0) -> dict[str, Any]:
    """Return artifacts as the step that collects them returns them."""
    return {"artifacts": [asdict(one) for one in made], "left_out": left_out}


def write_artifact(
    sandbox: TaskSandbox, path: str, write: Callable[[IO[bytes]], object]
) -> Artifact:
    """Make an artifact of what the function writes. Raise QuotaExceeded if there is no room for it."""
    folder = _folder(sandbox.store)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f".{token_hex(8)}.part"
    try:
        with reserving(folder) as reservation:
            reservation.take(0, files=1)
            with partial.open("w+b") as target:
                write(cast("IO[bytes]", _Reserving(target, reservation)))
            with partial.open("rb") as made:
                digest = file_digest(made, "sha256").hexdigest()
            size = partial.stat().st_size
            partial.rename(folder / digest)
    finally:
        partial.unlink(missing_ok=True)
    return Artifact(path=path, size=size, sha256=digest)


class _Reserving:
    """A file that reserves its bytes before it writes them."""

    def __init__(self, file: IO[bytes], reservation: Reservation) -> None:
        self._file, self._reservation = file, reservation

    def write(self, data: bytes) -> int:
        self._reservation.take(len(data))
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def artifacts_of(workflow: Workflow) -> list[dict[str, Any]]:
    """Return the artifacts of the task's latest generation; none if it has not got that far."""
    step = (
        Step.objects.filter(workflow=workflow, name=COLLECT, status=Step.Status.COMPLETE)
        .order_by("-position")
        .first()
    )
    output = step.output if step else None
    return list(output.get("artifacts", [])) if isinstance(output, dict) else []


def open_artifact(workflow: Workflow, path: str) -> BufferedReader:
    """Open one artifact. The caller closes it."""
    for one in artifacts_of(workflow):
        if one["path"] == path:
            copy = _folder(task_folder(workflow.workspace_id, workflow.pk)) / one["sha256"]
            try:
                return copy.open("rb")
            except FileNotFoundError:
                break
    raise NotFound("There is no such artifact.")


def _paths(sandbox: TaskSandbox, under: str = "") -> Iterator[str]:
    """Yield regular files sorted by name. Links are not followed, and hidden files are skipped."""
    names = tuple(under.strip("/").split("/")) if under else ()
    visited = 0
    try:
        with open_folder(sandbox.folder, names) as here:
            for folder, folders, files, _ in os.fwalk(".", dir_fd=here, follow_symlinks=False):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                for name in sorted(files):
                    visited += 1
                    if visited > MAX_VISITED:
                        return
                    path = os.path.normpath(f"{under}{folder}/{name}")
                    if not name.startswith(".") and storable(path) == path:
                        yield path
    except (ToolFailed, OSError):
        return  # the folder does not exist, or was removed meanwhile


def _copy(sandbox: TaskSandbox, path: str, most: int) -> Artifact | None:
    """Copy one file, named by its hash. Return None when it is too large or cannot be read."""
    folder = _folder(sandbox.store)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f".{token_hex(8)}.part"
    size, digest = 0, sha256()
    try:
        with (
            reserving(folder) as reservation,
            open_file(sandbox.folder, path) as source,
            partial.open("wb") as target,
        ):
            while piece := source.read(CHUNK):
                size += len(piece)
                if size > most:
                    reservation.cancel()
                    return None
                reservation.take(len(piece))
                digest.update(piece)
                target.write(piece)
        partial.rename(folder / digest.hexdigest())
    except (ToolFailed, OSError):
        return None
    finally:
        partial.unlink(missing_ok=True)
    return Artifact(path=path, size=size, sha256=digest.hexdigest())


def _folder(store: Path) -> Path:
    return store / "collected"
