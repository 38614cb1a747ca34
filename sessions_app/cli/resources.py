"""`agent session attach`, `resources` and `detach`."""

from __future__ import annotations

from django.core.management.base import CommandError

from sessions_app.cli.desk import Desk
from sessions_app.models import ResourceAttachment
from sessions_app.mounting import told
from sessions_app.resources import attach, detach


def attach_one(desk: Desk) -> None:
    """Give the session something to work with, and say its id."""
    fields = {name: desk.asked[name] for name in ("kind", "mount_path", "source_ref", "access")}
    resource = attach(desk.session, fields, desk.principal)
    said = f"{resource.pk}  {resource.notice}".rstrip()
    desk.say(said, **told(resource))


def list_resources(desk: Desk) -> None:
    """What the session was given, and whether it is ready."""
    for resource in desk.session.resources.all():
        reason = f": {resource.reason}" if resource.reason else ""
        line = (
            f"{resource.mount_path}  {resource.kind}  {resource.access}  {resource.status}{reason}"
        )
        desk.say(line, **told(resource))


def detach_one(desk: Desk) -> None:
    """Take away what is mounted at a path."""
    session, path = desk.session, desk.asked["mount_path"]
    found: ResourceAttachment | None = session.resources.filter(mount_path=path).first()
    if found is None:
        raise CommandError(f"Nothing is attached at {path}.")
    detach(session, found.pk, desk.principal.user_id)
    desk.say(f"Took away {path}.", mount_path=path)
