"""Where a task works: its sandbox's files, and a note beside them that says whose they are.

The note is written before anything else is made and is the handle of the sandbox: a step that finds
another note, or none, has lost its sandbox and says so. What no workflow needs any more is closed
by the supervisor, so a killed worker leaves nothing for good.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from config.faults import TaskSandboxGone
from tools_app.folder import SessionFolder
from tools_app.sandbox import kill_leftovers
from tools_app.sandbox.container import remove_containers
from tools_app.sandbox.kept.control import end_all
from tools_app.sandbox.kept.record import Record, records_in
from tools_app.sandbox.leftovers import kill_marked

OPEN, CLOSED = "open", "closed"
OVER = "Its task is over."


@dataclass(frozen=True, kw_only=True)
class TaskPlace:
    """A task's sandbox, as its note tells of it."""

    workspace_id: UUID
    workflow_id: UUID
    #: The same in every attempt of the step that made it, and never again.
    token: str
    environment_id: UUID | None = None
    #: The session whose sandbox it is; a command's sandbox is the task's own.
    session_id: UUID | None = None
    keep_until: float = 0.0

    @property
    def folder(self) -> SessionFolder:
        return SessionFolder(
            workspace_id=self.workspace_id, session_id=self.session_id or self.workflow_id
        )

    @property
    def store(self) -> Path:
        """What is kept of the task beside its workspace, out of reach of its commands."""
        return store_of(self.workspace_id, self.workflow_id)

    @property
    def commands(self) -> Path:
        """A record of each command that was ordered here, by its name."""
        return self.store / "commands"

    def records(self) -> list[Record]:
        return records_in(self.commands)


def store_of(workspace_id: UUID, workflow_id: UUID) -> Path:
    return SessionFolder(workspace_id=workspace_id, session_id=workflow_id).root


def make(place: TaskPlace) -> TaskPlace:
    """The place of this token. What an earlier life of the task left is cleared away first."""
    with _locked(place.workflow_id):
        found = read(place.workflow_id)
        if found and found.token != place.token:
            _clear(found)
        if found is None or found.token != place.token:
            _write(place)
    place.folder.make()
    store_of(place.workspace_id, place.workflow_id).mkdir(parents=True, exist_ok=True)
    return place


def reopen(workflow_id: UUID, token: str) -> TaskPlace:
    """The place that a former step made, or an error: another one will not do."""
    found = read(workflow_id)
    if found is None or found.token != token:
        raise TaskSandboxGone
    return found


def keep(place: TaskPlace, seconds: float) -> float:
    """Let it stay for a while after the task is over. Until when, by this machine's clock."""
    until = time.time() + seconds
    with _locked(place.workflow_id):
        reopen(place.workflow_id, place.token)
        _write(replace(place, keep_until=until))
    return until


def close(place: TaskPlace) -> None:
    """End what runs there and take its files away. What was collected stays. Twice is harmless."""
    with _locked(place.workflow_id):
        found = read(place.workflow_id)
        if found is None or found.token != place.token:
            return
        _clear(found)
        _note(OPEN, place.workflow_id).rename(_note(CLOSED, place.workflow_id))


def forget(workspace_id: UUID, workflow_id: UUID) -> None:
    """Take away what was collected, and the note of it."""
    shutil.rmtree(store_of(workspace_id, workflow_id), ignore_errors=True)
    _note(CLOSED, workflow_id).unlink(missing_ok=True)


def read(workflow_id: UUID, kind: str = OPEN) -> TaskPlace | None:
    try:
        told: dict[str, Any] = orjson.loads(_note(kind, workflow_id).read_bytes())
    except FileNotFoundError:
        return None
    ids = {name: told[name] and UUID(told[name]) for name in told if name.endswith("_id")}
    return TaskPlace(**{**told, **ids})


def noted(kind: str = OPEN) -> list[UUID]:
    """The workflows that have a place on this machine."""
    try:
        return [UUID(name) for name in os.listdir(_notes() / kind) if "." not in name]
    except FileNotFoundError:
        return []


def end_commands(place: TaskPlace, records: Sequence[Record] | None = None) -> None:
    """End these commands of the task, or all, and what is left of one whose keeper was lost."""
    end_all(place.records() if records is None else records, OVER)
    kill_leftovers(place.folder.session_id)


def _clear(place: TaskPlace) -> None:
    if place.session_id:  # the session's own life goes on
        return
    id = place.folder.session_id
    end_commands(place)
    kill_marked(id, kind="terminal")
    remove_containers(id)
    # Nothing runs there any more; links are taken away and never followed.
    shutil.rmtree(place.folder.files, ignore_errors=True)


def _write(place: TaskPlace) -> None:
    note = _note(OPEN, place.workflow_id)
    beside = note.with_name(f"{note.name}.{os.getpid()}.part")
    beside.write_bytes(orjson.dumps(asdict(place)))
    beside.rename(note)


def _note(kind: str, workflow_id: UUID) -> Path:
    folder = _notes() / kind
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    return folder / str(workflow_id)


def _notes() -> Path:
    return Path(settings.DATA_DIR) / "tasks"


@contextmanager
def _locked(workflow_id: UUID) -> Iterator[None]:
    """One change at a time, by all processes of this machine. Few files serve as locks for all."""
    folder = _notes() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / str(workflow_id)[-2:]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
