"""Attaches resources to a session, refreshes and detaches them, and records each change in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.mounts import Mount
from core.exceptions import Conflict, NotFound
from core.validation import read_input
from sessions_app.exceptions import SessionEnded
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import ResourceAttachment, Session, SessionEvent
from tenants.access import Principal, authorise

MAX_RESOURCES = 50


@transaction.atomic
def attach(session: Session, fields: object, principal: Principal) -> ResourceAttachment:
    """Attach a resource. A worker prepares it before the next tool call that can use it.

    Attaching secrets needs the build permission, because every command in the sandbox can read them.
    """
    mount = read_input(Mount, fields)
    if mount.kind == "vault":
        authorise(principal, "build")
    if session.archived_at:
        raise SessionEnded
    # The lock makes concurrent attachments see each other.
    Session.objects.select_for_update(no_key=True).get(pk=session.pk)
    _check_path(session, mount.mount_path)
    try:
        with transaction.atomic():
            resource = ResourceAttachment.objects.create(
                workspace_id=session.workspace_id,
                session=session,
                created_by_id=principal.user_id,
                **mount.model_dump(),
            )
    except IntegrityError:
        raise Conflict(f"A resource is already attached at {mount.mount_path}.") from None
    _append_event(session, resource, principal.user_id, attached=True)
    resource.refresh_from_db(fields=["created_at"])
    return resource


def _check_path(session: Session, path: str) -> None:
    taken = list(session.resources.values_list("mount_path", flat=True))
    if len(taken) >= MAX_RESOURCES:
        raise Conflict(f"A session can have at most {MAX_RESOURCES} resources.")
    for other in taken:
        if path != other and (path.startswith(f"{other}/") or other.startswith(f"{path}/")):
            raise Conflict(f"{path} overlaps with the attached resource at {other}.")


def attach_defaults(session: Session, mounts: Sequence[Mapping[str, Any]]) -> None:
    """Attach the resources that the environment gives to every new session."""
    if not mounts:
        return
    ResourceAttachment.objects.bulk_create(
        ResourceAttachment(
            workspace_id=session.workspace_id,
            session=session,
            created_by_id=session.created_by_id,
            kind=mount["kind"],
            source_ref=mount.get("source_ref", ""),
            mount_path=mount["mount_path"],
            access=mount.get("access", ResourceAttachment.Access.READ_ONLY),
        )
        for mount in mounts
    )


def find_resource(session: Session, resource_id: UUID) -> ResourceAttachment:
    """Return the session's resource with this id, or raise NotFound."""
    resource = session.resources.filter(pk=resource_id).first()
    if resource is None:
        raise NotFound
    return resource


def refresh(session: Session, resource_id: UUID) -> ResourceAttachment:
    """Have the resource prepared again from its source before it is used next."""
    resource = find_resource(session, resource_id)
    if resource.access == ResourceAttachment.Access.READ_WRITE and resource.prepared_as:
        raise Conflict(
            "Refreshing a writable resource would discard its changes. Detach it and attach it again."
        )
    resource.status = ResourceAttachment.Status.PENDING
    resource.reason = resource.prepared_as = ""
    resource.save(update_fields=["status", "reason", "prepared_as"])
    return resource


@transaction.atomic
def detach(session: Session, resource_id: UUID, author_id: UUID | None) -> None:
    """Detach a resource. Copies that commands made of it stay."""
    resource = find_resource(session, resource_id)
    _append_event(session, resource, author_id, attached=False)
    resource.delete()


def _append_event(
    session: Session, resource: ResourceAttachment, author_id: UUID | None, *, attached: bool
) -> None:
    payload = resource_payload(resource, attached=attached)
    event = NewEvent(type=SessionEvent.Type.RESOURCE_ATTACHED, payload=payload)
    append_events(session.pk, [event], author_id=author_id)


def resource_payload(resource: ResourceAttachment, *, attached: bool = True) -> dict[str, Any]:
    """Return the payload of a `session.resource_attached` event."""
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
