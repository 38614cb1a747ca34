"""Prepares a session's resources before a tool call that can use them, and mounts them.

The worker prepares on the lane's own thread, so no other session waits. Most resources are prepared
once; memory and secrets are prepared for each run. A resource that failed is tried again by the
next run, and until then tools report why it is missing. A worker that lost its lease changes no row.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex

import structlog
from django.db import transaction
from django.utils import timezone

from agents.mounts import Mount as MountInput
from core.db import release_connection
from core.exceptions import Fault
from core.validation import read_input
from sessions_app.exceptions import RunStopped
from sessions_app.harness.turn import Turn
from sessions_app.log.sql import lock_lane
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import ResourceAttachment, Session, SessionEvent
from sessions_app.resources import prepare
from sessions_app.resources.attachments import resource_payload
from sessions_app.resources.prepare import PREPARE_SECONDS, Job, Prepared
from sessions_app.resources.repositories import clone_repository
from tools_app.exceptions import ResourceFailed, ToolFailed
from tools_app.files import PASSABLE, PRIVATE, SessionFolder, make_mount_points
from tools_app.registry import Category
from tools_app.sandbox.base import Mount
from tools_app.storage import give_back, measure, reserving, settle_path

log = structlog.get_logger(__name__)

Status = ResourceAttachment.Status
PREPARERS: Mapping[str, Callable[[Job], Prepared]] = {
    "workspace_directory": prepare.make_shared_directory,
    "local_file": prepare.copy_file,
    "learnings_memory_store": prepare.write_learnings,
    "session_runtime_memory": prepare.write_session_memory,
    "vault": prepare.write_secrets,
    "remote_file_store": prepare.copy_remote_store,
    "repo_mount": clone_repository,
}
#: Kinds that are prepared for every run. All others last until they are refreshed or detached.
PREPARED_EACH_RUN = frozenset({"learnings_memory_store", "session_runtime_memory", "vault"})
#: Categories of tools that see mounted files.
FILE_CATEGORIES = frozenset({Category.FILESYSTEM, Category.EXEC})
#: The prefix of folders that hold secrets.
SECRET_FOLDER = "vault-"  # noqa: S105
CRASHED = "An internal error occurred while the resource was prepared."


def prepare_mounts(turn: Turn) -> None:
    """Set `turn.mounts` to the resources that the next tool calls see beside the session's files."""
    resources = list(ResourceAttachment.objects.filter(session_id=turn.session_id))
    release_connection()
    _remove_unused(turn, resources)
    turn.mounts = tuple(_mount(turn, resource) for resource in resources)


def delete_secret_files(turn: Turn) -> None:
    """Delete secrets from the disk when a run ends. The next run writes them again."""
    for path in turn.prepared.values():
        if path.name.startswith(SECRET_FOLDER):
            stored = measure(path)
            shutil.rmtree(path, ignore_errors=True)
            give_back(path, stored)


def persistent_mounts(session: Session) -> tuple[Mount, ...]:
    """Return the mounts of all prepared resources that outlast a run."""
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    ready = ResourceAttachment.objects.filter(session=session, status=Status.READY)
    mounts = []
    for resource in ready.exclude(kind__in=PREPARED_EACH_RUN):
        source = prepare.mount_source(folder, resource)
        if source is not None and source.exists():
            writable = prepare.is_writable(resource)
            mounts.append(Mount(source=source, target=resource.mount_path, writable=writable))
    if mounts:
        folder.make()
        make_mount_points(folder, mounts)
    return tuple(mounts)


def _mount(turn: Turn, resource: ResourceAttachment) -> Mount:
    """Return the mount of a resource, preparing it if needed. A failure becomes a missing mount."""
    was_tried = resource.pk in turn.prepared
    if was_tried and resource.status == Status.FAILED:
        return Mount(source=None, target=resource.mount_path, missing=resource.reason)
    is_kept = was_tried or resource.kind not in PREPARED_EACH_RUN
    source = prepare.mount_source(_folder(turn), resource)
    is_ready = (
        is_kept and resource.status == Status.READY and source is not None and source.exists()
    )
    try:
        source = source if is_ready else _prepare(turn, resource)
        mount = Mount(
            source=source, target=resource.mount_path, writable=prepare.is_writable(resource)
        )
        make_mount_points(_folder(turn), [mount])
    except (ResourceFailed, ToolFailed) as fault:
        _record(turn, resource, Status.FAILED, reason=fault.detail)
        return Mount(source=None, target=resource.mount_path, missing=fault.detail)
    if not is_ready:
        _record(turn, resource, Status.READY, source=source)
    return mount


def _prepare(turn: Turn, resource: ResourceAttachment) -> Path:
    """Prepare the resource in a new folder, which is deleted if that fails."""
    turn.stop_signal.check()
    into = turn.prepared[resource.pk] = _new_folder(turn, resource)
    with reserving(into) as reservation:
        job = Job(
            resource=resource,
            folder=_folder(turn),
            agent_id=turn.agent_id,
            into=into,
            stopped=turn.stop_signal.event,
            deadline=time.monotonic() + min(PREPARE_SECONDS, turn.seconds_left),
            reservation=reservation,
        )
        try:
            prepared = _run(job)
        except BaseException:
            shutil.rmtree(into, ignore_errors=True)
            raise
    turn.secrets += prepared.secrets
    return prepared.source


def _run(job: Job) -> Prepared:
    resource = job.resource
    try:
        fields = ("kind", "source_ref", "mount_path", "access")
        # An environment's default mounts may be older than the current rules.
        read_input(MountInput, {name: getattr(resource, name) for name in fields})
        return PREPARERS[resource.kind](job)
    except (ResourceFailed, RunStopped):
        raise
    except Fault as fault:
        raise ResourceFailed(fault.detail) from fault
    except Exception as error:
        log.exception("resource_crashed", resource_id=str(resource.pk))
        raise ResourceFailed(CRASHED) from error


def _record(
    turn: Turn,
    resource: ResourceAttachment,
    status: ResourceAttachment.Status,
    *,
    reason: str = "",
    source: Path | None = None,
) -> None:
    """Store the result, and append an event when a resource fails or recovers."""
    is_notable = status == Status.FAILED or resource.status == Status.FAILED
    before = resource.status, resource.reason
    resource.status, resource.reason = status, reason
    with transaction.atomic():
        lock_lane(turn.session_id, turn.claim.epoch)
        ResourceAttachment.objects.filter(pk=resource.pk).update(
            status=status,
            reason=reason,
            prepared_at=timezone.now(),
            prepared_as=_relative_name(turn, source),
        )
        if is_notable and before != (status, reason):
            payload = resource_payload(resource)
            append_events(
                turn.session_id,
                [NewEvent(type=SessionEvent.Type.RESOURCE_ATTACHED, payload=payload)],
                epoch=turn.claim.epoch,
                run_id=turn.claim.run_id,
            )
    release_connection()


def _remove_unused(turn: Turn, resources: list[ResourceAttachment]) -> None:
    """Delete folders of resources that were detached or refreshed, or that a lost worker left."""
    root = prepare.prepared_dir(_folder(turn))
    if not root.is_dir():
        return
    used = {part for r in resources if (part := r.prepared_as.partition("/")[0])}
    # A younger folder may belong to another worker that is preparing it now.
    oldest = time.time() - 2 * PREPARE_SECONDS
    unused = [p for p in root.iterdir() if p.name not in used and p.lstat().st_mtime < oldest]
    for path in unused:
        shutil.rmtree(path, ignore_errors=True)
    if unused:
        settle_path(root)


def _new_folder(turn: Turn, resource: ResourceAttachment) -> Path:
    root = prepare.prepared_dir(_folder(turn))
    _folder(turn).make()
    root.mkdir(mode=PASSABLE, exist_ok=True)
    root.chmod(PASSABLE)
    into = root / f"{resource.kind.split('_')[0]}-{resource.pk.hex}-{token_hex(4)}"
    into.mkdir(mode=PRIVATE)
    prepare.chown_to_sandbox_user(into)
    return into


def _relative_name(turn: Turn, source: Path | None) -> str:
    root = prepare.prepared_dir(_folder(turn))
    return str(source.relative_to(root)) if source and source.is_relative_to(root) else ""


def _folder(turn: Turn) -> SessionFolder:
    return SessionFolder(workspace_id=turn.workspace_id, session_id=turn.session_id)
