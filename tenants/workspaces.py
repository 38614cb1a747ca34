"""Inserts, finds and deletes the rows of workspaces; `orchestrator.workspaces` adds the contents."""

from __future__ import annotations

from secrets import token_hex
from uuid import UUID

from django.db import connection, transaction
from django.utils.text import slugify

from core.exceptions import Invalid
from tenants.models import Membership, User, Workspace


@transaction.atomic
def insert_workspace(*, name: str, owner: User | None) -> Workspace:
    """Insert an empty workspace and the membership of its owner."""
    name = name.strip()
    if not name:
        raise Invalid("A workspace needs a name.")
    slug = slugify(name)[:80] or "workspace"
    if Workspace.objects.filter(slug=slug).exists():
        slug = f"{slug}-{token_hex(3)}"
    workspace = Workspace.objects.create(name=name[:80], slug=slug)
    if owner:
        Membership.objects.create(
            workspace=workspace, user=owner, role=Membership.Role.OWNER, created_by=owner
        )
    return workspace


def find_workspace(name: str) -> Workspace | None:
    """Find a workspace by its slug, or else the oldest one with exactly this name."""
    by_slug = Workspace.objects.filter(slug=name).first()
    return by_slug or Workspace.objects.filter(name=name).order_by("created_at").first()


def first_owner(workspace_id: UUID) -> User | None:
    """Return the oldest owner, in whose name commands on this machine act."""
    owners = Membership.objects.for_workspace(workspace_id).filter(role=Membership.Role.OWNER)
    eldest = owners.select_related("user").order_by("created_at", "pk").first()
    return eldest.user if eldest else None


@transaction.atomic
def delete_workspace(workspace: Workspace) -> None:
    """Delete a workspace with all its rows."""
    with connection.cursor() as cursor:
        # The log refuses DELETE except for the workspace that this transaction names here.
        cursor.execute("SELECT set_config('switchyard.erasing', %s, true)", [str(workspace.pk)])
    workspace.delete()
