"""Prepares what a session was given, before the first call of a step that can use it.

A worker does it on the lane's own thread, so that nobody else waits. What lasts is prepared once;
memory and secrets are made anew for each run. What fails is tried again by the next run, and until
then the tools say why it is missing. A stale worker changes no row.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from agents.inputs import read_input
from agents.mount_input import Mount as Checked
from config.faults import Fault, ResourceFailed, RunStopped, ToolFailed
from sessions_app.log import NewEvent, append_events
from sessions_app.models import ResourceAttachment, SessionEvent
from sessions_app.preparing import EACH_RUN, PREPARERS, Job, Prepared
from sessions_app.preparing.job import SECONDS, give_away
from sessions_app.preparing.places import is_writable, prepared_room, source_of
from sessions_app.statements import hold_lane
from sessions_app.turn import Turn
from tenants.off_loop import let_go
from tools_app.folder import PASSABLE, PRIVATE, SessionFolder
from tools_app.mounts import make_mount_points
from tools_app.registry import Category
from tools_app.sandbox.base import Mount

log = structlog.get_logger(__name__)

Status = ResourceAttachment.Status
#: Categories of tools that see files.
SEEING = frozenset({Category.FILESYSTEM, Category.EXEC})
#: How the names of folders with secrets begin.
SECRET_FOLDER = "vault-"  # noqa: S105
CRASHED = "Something went wrong inside Switchyard while it was prepared."


def prepare(turn: Turn) -> None:
    """Put into the turn what its next calls see beside the session's own files."""
    found = list(ResourceAttachment.objects.filter(session_id=turn.session_id))
    let_go()
    _clear(turn, found)
    turn.mounts = tuple(_mounted(turn, resource) for resource in found)


def put_away(turn: Turn) -> None:
    """Take secrets off the disk when a run ends; the next one reveals them again."""
    for path in turn.prepared.values():
        if path.name.startswith(SECRET_FOLDER):
            shutil.rmtree(path, ignore_errors=True)


def _mounted(turn: Turn, resource: ResourceAttachment) -> Mount:
    tried = resource.pk in turn.prepared
    if tried and resource.status == Status.FAILED:
        return Mount(source=None, target=resource.mount_path, missing=resource.reason)
    lasts = tried or resource.kind not in EACH_RUN
    source = source_of(_folder(turn), resource)
    known = lasts and resource.status == Status.READY and source is not None and source.exists()
    try:
        source = source if known else _prepare(turn, resource)
        mount = Mount(source=source, target=resource.mount_path, writable=is_writable(resource))
        make_mount_points(_folder(turn), [mount])
    except (ResourceFailed, ToolFailed) as fault:
        _record(turn, resource, Status.FAILED, reason=fault.detail)
        return Mount(source=None, target=resource.mount_path, missing=fault.detail)
    if not known:
        _record(turn, resource, Status.READY, source=source)
    return mount


def _prepare(turn: Turn, resource: ResourceAttachment) -> Path:
    """Make it in a folder of its own, which goes again if that fails."""
    turn.sign.check()
    into = turn.prepared[resource.pk] = _new_folder(turn, resource)
    seconds = min(SECONDS, turn.seconds_left)
    job = Job(
        resource=resource,
        folder=_folder(turn),
        agent_id=turn.agent_id,
        into=into,
        stopped=turn.sign.event,
        until=time.monotonic() + seconds,
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
        # Defaults of an environment may be older than the rules.
        read_input(Checked, {name: getattr(resource, name) for name in fields})
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
    """Write what became of it, and say in the log when that is news."""
    news = status == Status.FAILED or resource.status == Status.FAILED
    was = resource.status, resource.reason
    resource.status, resource.reason = status, reason
    with transaction.atomic():
        hold_lane(turn.session_id, turn.claim.epoch)
        ResourceAttachment.objects.filter(pk=resource.pk).update(
            status=status,
            reason=reason,
            prepared_at=timezone.now(),
            prepared_as=_named(turn, source),
        )
        if news and was != (status, reason):
            append_events(
                turn.session_id,
                [NewEvent(type=SessionEvent.Type.RESOURCE_ATTACHED, payload=told(resource))],
                epoch=turn.claim.epoch,
                run_id=turn.claim.run_id,
            )
    let_go()


def told(resource: ResourceAttachment, *, attached: bool = True) -> dict[str, Any]:
    """A resource as the log tells of it."""
    return {
        "resource_id": str(resource.pk),
        "kind": resource.kind,
        "source_ref": resource.source_ref,
        "mount_path": resource.mount_path,
        "access": resource.access,
        "attached": attached,
        "status": resource.status,
        "reason": resource.reason,
        "notice": resource.notice,
    }


def _clear(turn: Turn, found: list[ResourceAttachment]) -> None:
    """Remove what belongs to nothing any more: taken away, refreshed, or left by a lost worker."""
    place = prepared_room(_folder(turn))
    if not place.is_dir():
        return
    used = {part for r in found if (part := r.prepared_as.partition("/")[0])}
    # What is younger may be another worker's, who prepares it now.
    old = time.time() - 2 * SECONDS
    for path in place.iterdir():
        if path.name not in used and path.lstat().st_mtime < old:
            shutil.rmtree(path, ignore_errors=True)


def _new_folder(turn: Turn, resource: ResourceAttachment) -> Path:
    place = prepared_room(_folder(turn))
    _folder(turn).make()
    place.mkdir(mode=PASSABLE, exist_ok=True)
    place.chmod(PASSABLE)
    into = place / f"{resource.kind.split('_')[0]}-{resource.pk.hex}-{token_hex(4)}"
    into.mkdir(mode=PRIVATE)
    give_away(into)
    return into


def _named(turn: Turn, source: Path | None) -> str:
    place = prepared_room(_folder(turn))
    return str(source.relative_to(place)) if source and source.is_relative_to(place) else ""


def _folder(turn: Turn) -> SessionFolder:
    return SessionFolder(workspace_id=turn.workspace_id, session_id=turn.session_id)
