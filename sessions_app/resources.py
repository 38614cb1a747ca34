"""What a session is given to work with: attached, listed, taken away, and said in its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.inputs import read_input
from agents.mount_input import Mount
from config.faults import Conflict, NotFound, SessionEnded
from sessions_app.log import NewEvent, append_events
from sessions_app.models import ResourceAttachment, Session, SessionEvent
from sessions_app.mounting import told
from tenants.access import Principal, authorise

MOST_RESOURCES = 50


@transaction.atomic
def attach(session: Session, fields: object, principal: Principal) -> ResourceAttachment:
    """Give the session a resource. A worker prepares it before the next call that can use it.

    Secrets in a sandbox are a builder's decision: whatever runs there can read them.
    """
    given = read_input(Mount, fields)
    if given.kind == "vault":
        authorise(principal, "build")
    if session.archived_at:
        raise SessionEnded
    # Held until the commit, so that two who attach at once see each other's.
    Session.objects.select_for_update(no_key=True).get(pk=session.pk)
    _check_room(session, given.mount_path)
    author_id = principal.user_id
    try:
        with transaction.atomic():
            resource = ResourceAttachment.objects.create(
                workspace_id=session.workspace_id,
                session=session,
                created_by_id=author_id,
                **given.model_dump(),
            )
    except IntegrityError:
        raise Conflict(f"Something is attached at {given.mount_path} already.") from None
    _say(session, resource, author_id, attached=True)
    resource.refresh_from_db(fields=["created_at"])
    return resource


def _check_room(session: Session, path: str) -> None:
    taken = list(session.resources.values_list("mount_path", flat=True))
    if len(taken) >= MOST_RESOURCES:
        raise Conflict(f"A session has at most {MOST_RESOURCES} resources.")
    for other in taken:
        if path != other and (path.startswith(f"{other}/") or other.startswith(f"{path}/")):
            raise Conflict(f"{path} and {other}, which is attached, would lie in each other.")


def attach_defaults(session: Session, mounts: Sequence[Mapping[str, Any]]) -> None:
    """Give a new session what its environment gives to each one."""
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


def refresh(session: Session, resource_id: UUID) -> ResourceAttachment:
    """Have it prepared anew, from its source as it is then."""
    resource = session.resources.filter(pk=resource_id).first()
    if resource is None:
        raise NotFound
    if resource.access == ResourceAttachment.Access.READ_WRITE and resource.prepared_as:
        raise Conflict("What was changed in it would be lost. Take it away and attach it again.")
    resource.status, resource.reason, resource.prepared_as = (
        ResourceAttachment.Status.PENDING,
        "",
        "",
    )
    resource.save(update_fields=["status", "reason", "prepared_as"])
    return resource


@transaction.atomic
def detach(session: Session, resource_id: UUID, author_id: UUID | None) -> None:
    """Take a resource away. What was copied from it stays where it is."""
    resource = session.resources.filter(pk=resource_id).first()
    if resource is None:
        raise NotFound
    _say(session, resource, author_id, attached=False)
    resource.delete()


def _say(
    session: Session, resource: ResourceAttachment, author_id: UUID | None, *, attached: bool
) -> None:
    payload = told(resource, attached=attached)
    event = NewEvent(type=SessionEvent.Type.RESOURCE_ATTACHED, payload=payload)
    append_events(session.pk, [event], author_id=author_id)
