"""Imports, exports and moves of memory that take longer than a request may, as workflows.

A request only stores the uploaded file and starts the workflow. Its page and REST resource show the
progress; it can be stopped, and continues where it was when its worker is killed. What an export
makes is an artifact of its workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import time
from typing import IO, Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from agents.definitions import find_agent
from core.db import release_connection
from core.exceptions import Fault, Forbidden
from core.ids import uuid7
from core.validation import STORABLE, Input
from memory.archive import Imported, import_archive, read_archive, write_archive
from memory.embeddings import embed_missing, move
from memory.models import MemoryEntry
from memory.ownership import Owner
from orchestrator.engine.definition import Event, Suspended, Workflow, workflow
from orchestrator.engine.lifecycle import start_workflow
from orchestrator.engine.steps import Steps
from orchestrator.exceptions import NonRetryableError, TaskSandboxGone
from orchestrator.models import Workflow as WorkflowRow
from orchestrator.tasks import artifacts
from orchestrator.tasks import sandbox as sandboxes
from orchestrator.tasks.sandbox import TaskSandbox
from orchestrator.tasks.start import starter_of
from sessions_app.log.transfer import export, export_markdown, import_session
from sessions_app.models import Session
from tenants.access import Principal, authorise
from tools_app.storage import check_disks, reserving

IMPORT_MEMORY, EXPORT_MEMORY = "import-memory", "export-memory"
IMPORT_SESSION, EXPORT_SESSION = "import-session", "export-session"
#: The name of the uploaded file in the folder of its workflow.
UPLOAD = "upload"
CHUNK = 1024 * 1024
#: How long an upload stays whose workflow was never started, because the process died in between.
UNCLAIMED_SECONDS = 3_600.0
Name = Annotated[str, Field(max_length=80), STORABLE]


# ── Starting ─────────────────────────────────────────────────────────────────────────────────────


def start_memory_import(
    principal: Principal, owner: Owner, file: IO[bytes], *, overwrite: bool
) -> WorkflowRow:
    """Store the zip, and start the workflow that imports it."""
    params = {**_owner_params(owner), "overwrite": overwrite}
    return _start_with(principal, IMPORT_MEMORY, params, file)


def start_memory_export(principal: Principal, owner: Owner) -> WorkflowRow:
    """Start the workflow that exports the memory of the workspace or of an agent."""
    if owner.scope == MemoryEntry.Scope.USER:
        raise Forbidden(
            "Everyone in the workspace could download this export. Export fewer documents."
        )
    return _start(principal, EXPORT_MEMORY, _owner_params(owner), verb="read")


def start_session_import(
    principal: Principal, agent_id: UUID, title: str, file: IO[bytes]
) -> WorkflowRow:
    """Store the log, and start the workflow that makes a session of it."""
    params = {"agent": str(agent_id), "title": title}
    return _start_with(principal, IMPORT_SESSION, params, file)


def start_session_export(principal: Principal, session: Session) -> WorkflowRow:
    """Start the workflow that writes a session to files: its events, and its messages."""
    return _start(principal, EXPORT_SESSION, {"session": str(session.pk)}, verb="read")


def _owner_params(owner: Owner) -> dict[str, Any]:
    agent = str(owner.owner_id) if owner.scope == MemoryEntry.Scope.AGENT else ""
    return {"scope": owner.scope.value, "agent": agent}


def _start(
    principal: Principal,
    name: str,
    params: dict[str, Any],
    *,
    verb: Literal["read", "run"] = "run",
    id: UUID | None = None,
) -> WorkflowRow:
    return start_workflow(
        authorise(principal, verb),
        name,
        params,
        created_by_id=principal.user_id,
        key_id=principal.key_id,
        id=id,
    )[0]


def _start_with(
    principal: Principal, name: str, params: dict[str, Any], file: IO[bytes]
) -> WorkflowRow:
    check_disks()
    release_connection()  # Writing a long file takes a while.
    id = uuid7()
    place = TaskSandbox(
        workspace_id=authorise(principal, "run"),
        workflow_id=id,
        token=UPLOAD,
        keep_until=time() + UNCLAIMED_SECONDS,
    )
    sandboxes.create(place)
    try:
        _store(place, file)
        return _start(principal, name, params, id=id)
    except BaseException:
        sandboxes.close(place)
        sandboxes.forget(place.workspace_id, id)
        raise


def _store(place: TaskSandbox, file: IO[bytes]) -> None:
    folder = place.folder.make()
    with reserving(folder) as reservation, (folder / UPLOAD).open("wb") as target:
        reservation.take(0, files=1)
        while piece := file.read(CHUNK):
            reservation.take(len(piece))
            target.write(piece)


def _uploaded(event: Event) -> IO[bytes]:
    """Open the file that was uploaded for this workflow."""
    place = sandboxes.reopen(event.id, UPLOAD)
    try:
        return (place.folder.files / UPLOAD).open("rb")
    except FileNotFoundError:
        raise TaskSandboxGone from None


# ── The workflows ────────────────────────────────────────────────────────────────────────────────


class OwnerParams(Input):
    scope: Literal["workspace", "agent"] = Field(default="workspace", title="Memory of")
    agent: Name = Field(default="", title="Agent")


class ImportMemoryParams(Input):
    scope: Literal["workspace", "agent", "user"] = Field(default="workspace", title="Memory of")
    agent: Name = Field(default="", title="Agent")
    overwrite: bool = Field(default=False, title="Replace documents that have changed since")


class ImportSessionParams(Input):
    agent: Name = Field(title="Agent")
    title: Annotated[str, Field(max_length=200), STORABLE] = Field(default="", title="Title")


class ExportSessionParams(Input):
    session: UUID = Field(title="Session")


class ReembedParams(Input):
    model: Annotated[str, Field(min_length=1, max_length=200), STORABLE] = Field(
        default="wordllama",
        title="Embedding model",
        description="wordllama, gemini, openai, or for example openai:NAME@DIMENSIONS.",
    )


@workflow(name=IMPORT_MEMORY)
class ImportMemory(Workflow):
    """Import a zip of Markdown files that was uploaded on the memory page or over REST."""

    params = ImportMemoryParams
    about = ("agent", "scope")
    concurrency = 1

    def run(self, event: Event, step: Steps) -> Any:
        params = ImportMemoryParams.model_validate(event.payload)
        self.report_progress("Reading and writing the documents", percent=5, step="import")
        done = step.do("import", lambda: self._import(event, params, step), delay=1, timeout=None)
        self.report_progress("Making the documents searchable", percent=40, step="embed")
        step.do("embed", lambda: self._embed(event, step), delay=5, timeout=None)
        step.do("remove the upload", partial(_remove_upload, event.id), delay=1)
        self.report_progress("Imported", percent=100, step="embed", status="complete")
        return done

    def _import(self, event: Event, params: ImportMemoryParams, step: Steps) -> dict[str, int]:
        with _final_faults():
            owner = _owner(event, params.scope, params.agent)
            release_connection()
            with _uploaded(event) as file:
                documents = read_archive(file)
            done = import_archive(
                owner,
                documents,
                by=event.created_by_id,
                overwrite=params.overwrite,
                check=_stopper(step),
            )
        return _counts(done)

    def _embed(self, event: Event, step: Steps) -> None:
        report = _percent(self, "Making the documents searchable", first=40, last=99)
        embed_missing(event.workspace_id, progress=report, check=_stopper(step))


@workflow(name=EXPORT_MEMORY)
class ExportMemory(Workflow):
    """Write the memory of the workspace or of an agent to a zip, which becomes an artifact."""

    params = OwnerParams
    about = ("agent", "scope")
    concurrency = 1

    def run(self, event: Event, step: Steps) -> Any:
        params = OwnerParams.model_validate(event.payload)
        self.report_progress("Writing the documents", percent=5, step=artifacts.COLLECT)
        made = step.do(
            artifacts.COLLECT, lambda: self._export(event, params, step), delay=1, timeout=None
        )
        self.report_progress("Exported", percent=100, step=artifacts.COLLECT, status="complete")
        return made

    def _export(self, event: Event, params: OwnerParams, step: Steps) -> dict[str, Any]:
        with _final_faults():
            owner = _owner(event, params.scope, params.agent)
        report = _percent(self, "Writing the documents", first=5, last=99)
        name = f"memory-{params.scope}-{str(owner.owner_id)[-12:]}.zip"

        def write(file: IO[bytes]) -> None:
            write_archive(owner, file, progress=report, check=_stopper(step))

        return _collected(event, {name: write})


@workflow(name=IMPORT_SESSION)
class ImportSession(Workflow):
    """Make a session of an exported log that was uploaded."""

    params = ImportSessionParams
    about = ("title",)
    concurrency = 1

    def run(self, event: Event, step: Steps) -> Any:
        params = ImportSessionParams.model_validate(event.payload)
        self.report_progress("Reading and writing the events", percent=10, step="import")
        made = step.do("import", lambda: self._import(event, params, step), delay=1, timeout=None)
        step.do("remove the upload", partial(_remove_upload, event.id), delay=1)
        self.report_progress("Imported", percent=100, step="import", status="complete")
        return made

    def _import(self, event: Event, params: ImportSessionParams, step: Steps) -> dict[str, str]:
        check = _stopper(step)
        with _final_faults(), _uploaded(event) as file:

            def lines() -> Any:
                for line in file:
                    check()
                    yield line

            session = import_session(
                find_agent(event.workspace_id, params.agent),
                lines(),
                title=params.title,
                created_by_id=event.created_by_id,
                # The same in every attempt, so that a repetition makes no second session.
                session_key=f"import:{event.id}",
            )
        return {"session_id": str(session.pk)}


@workflow(name=EXPORT_SESSION)
class ExportSession(Workflow):
    """Write a session to files: its events as lines of JSON, and its messages as Markdown."""

    params = ExportSessionParams
    about = ("session",)
    concurrency = 1

    def run(self, event: Event, step: Steps) -> Any:
        params = ExportSessionParams.model_validate(event.payload)
        self.report_progress("Writing the events", percent=5, step=artifacts.COLLECT)
        made = step.do(
            artifacts.COLLECT, lambda: self._export(event, params, step), delay=1, timeout=None
        )
        self.report_progress("Exported", percent=100, step=artifacts.COLLECT, status="complete")
        return made

    def _export(self, event: Event, params: ExportSessionParams, step: Steps) -> dict[str, Any]:
        sessions = Session.objects.for_workspace(event.workspace_id)
        session = sessions.select_related("agent_version").filter(pk=params.session).first()
        if session is None:
            raise NonRetryableError("This session does not exist.")
        check, total = _stopper(step), max(1, session.last_seq)
        report = _percent(self, "Writing the events", first=5, last=80)

        def write_events(file: IO[bytes]) -> None:
            for number, line in enumerate(export(session), start=1):
                check()
                file.write(line)
                if number % 1_000 == 0:
                    report(number, total)

        def write_messages(file: IO[bytes]) -> None:
            for text in export_markdown(session):
                check()
                file.write(text.encode())

        stem = f"session-{str(session.pk)[-12:]}"
        return _collected(event, {f"{stem}.jsonl": write_events, f"{stem}.md": write_messages})


@workflow(name="reembed-memory")
class ReembedMemory(Workflow):
    """Move the workspace's memory to another embedding model. Searches use the old one meanwhile."""

    params = ReembedParams
    about = ("model",)
    concurrency = 1

    def run(self, event: Event, step: Steps) -> Any:
        params = ReembedParams.model_validate(event.payload)
        self.report_progress(f"Moving to {params.model}", percent=1, step="embed")
        done = step.do("embed", lambda: self._move(event, params, step), delay=10, timeout=None)
        self.report_progress("Moved", percent=100, step="embed", status="complete")
        return {"model": params.model, "embedded": done}

    def _move(self, event: Event, params: ReembedParams, step: Steps) -> int:
        with _final_faults():
            starter = starter_of(event)
            if starter is not None:
                authorise(starter, "admin")
        report = _percent(self, f"Moving to {params.model}", first=1, last=99)
        return move(event.workspace_id, params.model, progress=report, check=_stopper(step))


# ── Parts of steps ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def _final_faults() -> Iterator[None]:
    """Let a step fail for good where it would meet the same error again."""
    try:
        yield
    except Fault as fault:
        if fault.status >= 500:
            raise
        raise NonRetryableError(fault.detail) from fault


def _stopper(step: Steps) -> Callable[[], None]:
    """Return a function that leaves the step when it was stopped, or its worker stops."""

    def check() -> None:
        if step.stopped:
            raise Suspended

    return check


def _percent(made: Workflow, message: str, *, first: float, last: float) -> Callable[..., None]:
    """Return a function that reports how many of all are done, in whole percents of the workflow."""
    told = int(first)

    def report(done: int, total: int) -> None:
        nonlocal told
        percent = int(first + (last - first) * min(1.0, done / max(1, total)))
        if percent > told:
            told = percent
            made.report_progress(message, percent=percent)

    return report


def _owner(event: Event, scope: str, agent: str) -> Owner:
    """Return whose memory it is. A person's own is that of the person who started the workflow."""
    kind = MemoryEntry.Scope(scope)
    match kind:
        case MemoryEntry.Scope.AGENT:
            owner_id = find_agent(event.workspace_id, agent).pk
        case MemoryEntry.Scope.USER if event.created_by_id:
            owner_id = event.created_by_id
        case MemoryEntry.Scope.WORKSPACE:
            owner_id = event.workspace_id
        case _:
            raise NonRetryableError("This memory belongs to nobody.")
    return Owner(workspace_id=event.workspace_id, scope=kind, owner_id=owner_id)


def _counts(done: Imported) -> dict[str, int]:
    return {"created": done.created, "changed": done.changed, "unchanged": done.unchanged}


def _collected(event: Event, files: dict[str, Callable[[IO[bytes]], None]]) -> dict[str, Any]:
    """Write the files of an export, and return them as a task returns its artifacts."""
    place = TaskSandbox(
        workspace_id=event.workspace_id, workflow_id=event.id, token=artifacts.COLLECT
    )
    sandboxes.create(place)
    made = [artifacts.write_artifact(place, name, write) for name, write in files.items()]
    sandboxes.close(place)
    return artifacts.as_output(made)


def _remove_upload(workflow_id: UUID) -> None:
    sandboxes.close_sandbox(workflow_id, UPLOAD)
