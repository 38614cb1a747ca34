"""The sandbox of a task: its files, and a manifest beside them that names their owner.

The manifest is written before anything else and is the handle of the sandbox: a step that finds
another manifest, or none, has lost its sandbox and fails. The supervisor closes what no workflow
needs any more, so a killed worker leaves nothing behind for good.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from agents.definitions import current_version
from agents.environments import default_environment, environment_or_default, find_environment
from agents.limits import SandboxLimits
from agents.models import Environment
from core.db import for_each
from core.exceptions import Fault
from orchestrator.engine.definition import Event
from orchestrator.exceptions import NonRetryableError, TaskSandboxGone
from orchestrator.models import Workflow
from orchestrator.tasks.start import TaskParams, chosen_agent
from tools_app.files import SessionFolder, write_file
from tools_app.sandbox.container.lifecycle import remove_containers
from tools_app.sandbox.processes import kill_marked
from tools_app.sandbox.provisioning import kill_leftovers
from tools_app.sandbox.tasks.control import stop_all
from tools_app.sandbox.tasks.record import Record, list_records
from tools_app.storage import settle_path

OPEN, CLOSED = "open", "closed"
OVER = "The task is over."
BATCH = 1_000


@dataclass(frozen=True, kw_only=True)
class TaskSandbox:
    """A task's sandbox, as its manifest describes it."""

    workspace_id: UUID
    workflow_id: UUID
    #: The same in every attempt of the step that created it, and never used again.
    token: str
    environment_id: UUID | None = None
    #: The session whose sandbox it is; the sandbox of a command is the task's own.
    session_id: UUID | None = None
    keep_until: float = 0.0

    @property
    def folder(self) -> SessionFolder:
        return SessionFolder(
            workspace_id=self.workspace_id, session_id=self.session_id or self.workflow_id
        )

    @property
    def store(self) -> Path:
        """The folder of the task beside its sandbox, out of reach of its commands."""
        return task_folder(self.workspace_id, self.workflow_id)

    @property
    def commands(self) -> Path:
        """The folder with a record of each command that was ordered here, by its name."""
        return self.store / "commands"

    def records(self) -> list[Record]:
        return list_records(self.commands)


def task_folder(workspace_id: UUID, workflow_id: UUID) -> Path:
    return SessionFolder(workspace_id=workspace_id, session_id=workflow_id).root


def create(sandbox: TaskSandbox) -> TaskSandbox:
    """Create the sandbox of this token, after clearing what an earlier generation left."""
    with _locked(sandbox.workflow_id):
        found = read(sandbox.workflow_id)
        if found and found.token != sandbox.token:
            _clear(found)
        if found is None or found.token != sandbox.token:
            _write(sandbox)
    sandbox.folder.make()
    task_folder(sandbox.workspace_id, sandbox.workflow_id).mkdir(parents=True, exist_ok=True)
    return sandbox


def reopen(workflow_id: UUID, token: str) -> TaskSandbox:
    """Return the sandbox that an earlier step created, or raise TaskSandboxGone."""
    found = read(workflow_id)
    if found is None or found.token != token:
        raise TaskSandboxGone
    return found


def keep(workflow_id: UUID, token: str, seconds: float) -> float:
    """Keep it for a while after the task is over. Return until when, by this machine's clock."""
    until = time.time() + seconds
    with _locked(workflow_id):
        _write(replace(reopen(workflow_id, token), keep_until=until))
    return until


def close(sandbox: TaskSandbox) -> None:
    """End what runs there and remove its files; artifacts stay. Closing twice is harmless."""
    with _locked(sandbox.workflow_id):
        found = read(sandbox.workflow_id)
        if found is None or found.token != sandbox.token:
            return
        _clear(found)
        _manifest(OPEN, sandbox.workflow_id).rename(_manifest(CLOSED, sandbox.workflow_id))


def forget(workspace_id: UUID, workflow_id: UUID) -> None:
    """Delete the artifacts and the manifest of a task."""
    folder = task_folder(workspace_id, workflow_id)
    shutil.rmtree(folder, ignore_errors=True)
    settle_path(folder)
    _manifest(CLOSED, workflow_id).unlink(missing_ok=True)


def read(workflow_id: UUID, kind: str = OPEN) -> TaskSandbox | None:
    try:
        fields: dict[str, Any] = orjson.loads(_manifest(kind, workflow_id).read_bytes())
    except FileNotFoundError:
        return None
    ids = {name: fields[name] and UUID(fields[name]) for name in fields if name.endswith("_id")}
    return TaskSandbox(**{**fields, **ids})


def workflows_with_sandbox(kind: str = OPEN) -> list[UUID]:
    """Return the workflows that have a sandbox on this machine."""
    try:
        return [UUID(name) for name in os.listdir(_manifests() / kind) if "." not in name]
    except FileNotFoundError:
        return []


def end_commands(sandbox: TaskSandbox, records: Sequence[Record] | None = None) -> None:
    """End these commands of the task, or all, and what a lost keeper left running."""
    stop_all(sandbox.records() if records is None else records, OVER)
    kill_leftovers(sandbox.folder.session_id)


def _clear(sandbox: TaskSandbox) -> None:
    if sandbox.session_id:  # the session outlives the task
        return
    id = sandbox.folder.session_id
    end_commands(sandbox)
    kill_marked(id, kind="terminal")
    remove_containers(id)
    # Nothing runs there any more; links are removed and never followed.
    shutil.rmtree(sandbox.folder.files, ignore_errors=True)
    settle_path(sandbox.folder.files)


def _write(sandbox: TaskSandbox) -> None:
    manifest = _manifest(OPEN, sandbox.workflow_id)
    partial = manifest.with_name(f"{manifest.name}.{os.getpid()}.part")
    partial.write_bytes(orjson.dumps(asdict(sandbox)))
    partial.rename(manifest)


def _manifest(kind: str, workflow_id: UUID) -> Path:
    folder = _manifests() / kind
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    return folder / str(workflow_id)


def _manifests() -> Path:
    return Path(settings.DATA_DIR) / "tasks"


@contextmanager
def _locked(workflow_id: UUID) -> Iterator[None]:
    """Lock the task's sandbox against other processes of this machine. A few lock files serve all."""
    folder = _manifests() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / str(workflow_id)[-2:]).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def create_sandbox(
    event: Event, params: TaskParams, key: str, session_id: UUID | None = None
) -> str:
    """Create the task's sandbox, the same in every attempt of the step. Return its token."""
    environment = None
    if session_id is None:
        environment = chosen_environment(event.workspace_id, params)
    sandbox = TaskSandbox(
        workspace_id=event.workspace_id,
        workflow_id=event.id,
        token=key,
        environment_id=environment.pk if environment else None,
        session_id=session_id,
    )
    return create(sandbox).token


def chosen_environment(workspace_id: UUID, params: TaskParams) -> Environment:
    """Return the named environment, else the agent's, else the workspace's default."""
    try:
        ref: UUID | str | None = params.environment
        if params.agent and not ref:
            ref = current_version(chosen_agent(workspace_id, params.agent)).environment_id
        return find_environment(workspace_id, ref) if ref else default_environment(workspace_id)
    except Fault as fault:
        raise NonRetryableError(fault.detail) from fault


def longest_command(workspace_id: UUID, params: TaskParams) -> int | None:
    """Return the seconds that the task's environment allows its command, or None without both."""
    if not params.command:
        return None
    try:
        limits = chosen_environment(workspace_id, params).limits
    except NonRetryableError:
        return None  # the task itself says what is missing
    return SandboxLimits.model_validate(limits).wall_seconds


def environment_of(sandbox: TaskSandbox) -> Environment:
    """Return the sandbox's environment; if it was deleted, the workspace's default."""
    return environment_or_default(sandbox.workspace_id, sandbox.environment_id)


def put_files(sandbox: TaskSandbox, params: TaskParams) -> dict[str, str]:
    """Write the files, and return the hash of each, to recognise later what is new."""
    for file in params.files:
        write_file(sandbox.folder, file.path, file.content)
    return {file.path: sha256(file.content).hexdigest() for file in params.files}


def close_sandbox(workflow_id: UUID, token: str) -> None:
    found = read(workflow_id)
    if found and found.token == token:
        close(found)


def unneeded() -> list[TaskSandbox]:
    """Return the sandboxes of this machine whose workflow is over and that need not be kept."""
    ids = workflows_with_sandbox()
    if not ids:
        return []
    going_on = _going_on(ids)
    found = [read(id) for id in ids if id not in going_on]
    return [sandbox for sandbox in found if sandbox and sandbox.keep_until <= time.time()]


def close_all(unneeded: Iterable[TaskSandbox]) -> None:
    """Close these sandboxes. One that cannot be closed is retried at the next sweep."""
    for_each(unneeded, close)


def needed(ids: Iterable[UUID]) -> set[UUID]:
    """Return which of these sandboxes belong to tasks that run or are kept."""
    params = list(ids)
    going_on = _going_on(params)
    kept = {id for id in params if (p := read(id)) and p.keep_until > time.time()}
    return going_on | kept


def forget_erased() -> int:
    """Delete the artifacts of workflows that were deleted. Return of how many."""
    forgotten = 0
    for some in _batches(workflows_with_sandbox(CLOSED)):
        there = set(Workflow.objects.filter(pk__in=some).values_list("pk", flat=True))
        for id in set(some) - there:
            if sandbox := read(id, CLOSED):
                forget(sandbox.workspace_id, sandbox.workflow_id)
                forgotten += 1
    return forgotten


def _going_on(ids: list[UUID]) -> set[UUID]:
    rows = Workflow.objects.filter(pk__in=ids).exclude(status__in=Workflow.OVER)
    return set(rows.values_list("pk", flat=True))


def _batches(ids: list[UUID]) -> Iterator[list[UUID]]:
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
