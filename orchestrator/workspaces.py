"""Creates workspaces with everything a new one starts with, and erases them with all their files.

This is the rightmost service that knows every app, so it is the one place where a workspace begins
and ends. `tenants.workspaces` only writes and deletes the rows.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.urls import reverse

from agents.examples import create_examples
from core import env
from tenants.accounts import first_superuser, make_sign_in_link, register
from tenants.billing.credits import grant_starting_credits
from tenants.models import User, Workspace
from tenants.quotas import check_workspaces
from tenants.workspaces import delete_workspace, insert_workspace
from tools_app.files import sessions_dir, shared_dir
from tools_app.parts import parts_dir
from tools_app.sandbox.slots import slots_dir
from tools_app.skills import add_example_skill
from tools_app.storage import ledger_dir

OWNER_EMAIL = "owner@localhost"


@transaction.atomic
def create_workspace(*, name: str, owner: User | None) -> Workspace:
    """Create a workspace with starting credits, example agents and an example skill.

    A workspace without an owner is for programs only. Only the first workspaces of a person start
    with credits, so that creating more of them does not create money.
    """
    created = check_workspaces(owner) if owner else 0
    workspace = insert_workspace(name=name, owner=owner)
    if owner is None or owner.is_staff or created < settings.STARTING_CREDITS_WORKSPACES:
        grant_starting_credits(workspace, owner)
    create_examples(workspace, owner)
    add_example_skill(workspace, owner)
    return workspace


@transaction.atomic
def erase_workspace(workspace: Workspace) -> None:
    """Delete a workspace with its rows, logs and files. This cannot be undone."""
    of_workspace = (sessions_dir, shared_dir, parts_dir, slots_dir, ledger_dir)
    folders = [folder(workspace.pk) for folder in of_workspace]
    delete_workspace(workspace)
    transaction.on_commit(partial(_remove, folders))


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@transaction.atomic
def sign_up(*, email: str, password: str, name: str = "", workspace_name: str = "") -> User:
    """Create an account together with a workspace that it owns, if sign-up is open."""
    user = register(email=email, password=password, name=name)
    create_workspace(name=workspace_name or f"{user.display_name}'s workspace", owner=user)
    return user


@transaction.atomic
def prepare_installation() -> str | None:
    """Create the first owner and workspace if there are none.

    Return the path of a one-time sign-in link for as long as the owner has no password.
    """
    owner = first_superuser()
    if owner is None and not User.objects.exists():
        owner = User.objects.create_superuser(env.text("OWNER_EMAIL", OWNER_EMAIL))
        create_workspace(name="My workspace", owner=owner)
    if owner is None or owner.has_usable_password():
        return None
    return reverse("sign_in_link", args=[make_sign_in_link(owner)])
