"""Workspaces: made, named, found, erased."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from uuid import UUID

from django.db import connection, transaction
from django.utils.text import slugify

from config.faults import Invalid
from tenants.models import Membership, User, Workspace

#: What other apps put into every new workspace (example agents, a default environment).
furnishings: list[Callable[[Workspace, User | None], None]] = []
#: Where other apps keep files of a workspace.
rooms: list[Callable[[UUID], Path]] = []


@transaction.atomic
def create_workspace(*, name: str, owner: User | None) -> Workspace:
    """A furnished workspace. Without an owner it is for programs only."""
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
    for furnish in furnishings:
        furnish(workspace, owner)
    return workspace


def first_owner(workspace_id: UUID) -> User | None:
    """In whose name commands on this machine act here."""
    owners = Membership.objects.for_workspace(workspace_id).filter(role=Membership.Role.OWNER)
    eldest = owners.select_related("user").order_by("created_at", "pk").first()
    return eldest.user if eldest else None


def find_workspace(name: str) -> Workspace | None:
    """By slug, else by exact name, the oldest first."""
    by_slug = Workspace.objects.filter(slug=name).first()
    return by_slug or Workspace.objects.filter(name=name).order_by("created_at").first()


@transaction.atomic
def erase_workspace(workspace: Workspace) -> None:
    """Remove a workspace with all that is in it, logs and files included. There is no way back."""
    with connection.cursor() as cursor:
        # The log refuses DELETE but for the workspace that this transaction says it erases.
        cursor.execute("SELECT set_config('switchyard.erasing', %s, true)", [str(workspace.pk)])
    files = [room(workspace.pk) for room in rooms]
    workspace.delete()
    transaction.on_commit(partial(_remove, files))


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
