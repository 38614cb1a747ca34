"""What a task made: copied out of its workspace, by hash, and read again by those who may.

The copies lie where no command reaches them, so a download is what was collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import Any

from config.faults import NotFound, ToolFailed
from orchestrator.models import Step, Workflow
from orchestrator.taskagent.place import TaskPlace, store_of
from tools_app.clip import storable
from tools_app.files import open_file, open_folder

#: The step that collects, by which artifacts are found again.
COLLECT = "collect artifacts"
FOLDER = "artifacts"
MOST_FILES = 200
MOST_VISITED = 20_000
LARGEST_FILE = 64 * 1024 * 1024
LARGEST_SUM = 256 * 1024 * 1024
PIECE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Artifact:
    path: str
    size: int
    sha256: str


def collect(place: TaskPlace, given: dict[str, str]) -> dict[str, Any]:
    """Copy what lies in `artifacts/`, else every file that is new since `given`, path by hash."""
    named = list(_paths(place, f"{FOLDER}/"))
    found: list[Artifact] = []
    left_out = 0
    room = LARGEST_SUM
    for path in named or _paths(place):
        if len(found) >= MOST_FILES:
            left_out += 1
            continue
        kept = _keep(place, path, min(LARGEST_FILE, room))
        if kept is None:
            left_out += 1
        elif given.get(path) != kept.sha256:
            found.append(kept)
            room -= kept.size
    return {"artifacts": [asdict(one) for one in found], "left_out": left_out}


def artifacts_of(workflow: Workflow) -> list[dict[str, Any]]:
    """Those of the task's newest life; none when it has not come so far."""
    step = (
        Step.objects.filter(workflow=workflow, name=COLLECT, status=Step.Status.COMPLETE)
        .order_by("-position")
        .first()
    )
    output = step.output if step else None
    return list(output.get("artifacts", [])) if isinstance(output, dict) else []


def open_artifact(workflow: Workflow, path: str) -> BufferedReader:
    """One artifact to be read, and closed by the caller."""
    for one in artifacts_of(workflow):
        if one["path"] == path:
            kept = _folder(store_of(workflow.workspace_id, workflow.pk)) / one["sha256"]
            try:
                return kept.open("rb")
            except FileNotFoundError:
                break
    raise NotFound("There is no such artifact.")


def _paths(place: TaskPlace, under: str = "") -> Iterator[str]:
    """Ordinary files, in the order of their names. No link is followed, nothing hidden looked at."""
    names = tuple(under.strip("/").split("/")) if under else ()
    visited = 0
    try:
        with open_folder(place.folder, names) as here:
            for folder, folders, files, _ in os.fwalk(".", dir_fd=here, follow_symlinks=False):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                for name in sorted(files):
                    visited += 1
                    if visited > MOST_VISITED:
                        return
                    path = os.path.normpath(f"{under}{folder}/{name}")
                    if not name.startswith(".") and storable(path) == path:
                        yield path
    except (ToolFailed, OSError):
        return  # there is no such folder, or it went away


def _keep(place: TaskPlace, path: str, most: int) -> Artifact | None:
    """Copy one file, by its hash; None when it is too large or cannot be read."""
    folder = _folder(place.store)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = folder / f".{token_hex(8)}.part"
    size, digest = 0, sha256()
    try:
        with open_file(place.folder, path) as source, beside.open("wb") as copy:
            while piece := source.read(PIECE):
                size += len(piece)
                if size > most:
                    return None
                digest.update(piece)
                copy.write(piece)
        beside.rename(folder / digest.hexdigest())
    except (ToolFailed, OSError):
        return None
    finally:
        beside.unlink(missing_ok=True)
    return Artifact(path=path, size=size, sha256=digest.hexdigest())


def _folder(store: Path) -> Path:
    return store / "collected"
