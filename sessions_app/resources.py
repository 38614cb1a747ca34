"""What a session is given to work with: attached, listed, taken away, and said in its log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from agents.environment_input import Mount
from agents.inputs import read_input
from config.faults import Conflict, NotFound, SessionEnded
from sessions_app.log import NewEvent, append_events
from sessions_app.models import ResourceAttachment, Session, SessionEvent

MOST_RESOURCES = 50


@transaction.atomic
def attach(session: Session, fields: object, author_id: UUID | None) -> ResourceAttachment:
    """Give the session a resource. Its sandbox mounts it when it is next provisioned."""
    given = read_input(Mount, fields)
    if session.archived_at:
        raise SessionEnded
    if session.resources.count() >= MOST_RESOURCES:
        raise Conflict(f"A session has at most {MOST_RESOURCES} resources.")
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
    payload: dict[str, Any] = {
        "resource_id": str(resource.pk),
        "kind": resource.kind,
        "source_ref": resource.source_ref,
        "mount_path": resource.mount_path,
        "access": resource.access,
        "attached": attached,
    }
    event = NewEvent(type=SessionEvent.Type.RESOURCE_ATTACHED, payload=payload)
    append_events(session.pk, [event], author_id=author_id)
