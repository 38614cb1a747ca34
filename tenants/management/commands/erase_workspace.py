"""`manage.py erase_workspace` deletes a workspace: its rows, logs and files."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.workspaces import erase_workspace
from tenants.models import Membership
from tenants.workspaces import find_workspace


class Command(BaseCommand):
    help = (
        "Erase a workspace with its agents, sessions, memory, credits and files. Cannot be undone."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="name or slug")
        parser.add_argument(
            "--yes", action="store_true", help="erase it; otherwise only show what would be erased"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["workspace"]
        workspace = find_workspace(name)
        if workspace is None:
            raise CommandError(f"There is no workspace {name!r}.")
        people = Membership.objects.filter(workspace=workspace).count()
        if not options["yes"]:
            self.stdout.write(
                f"{workspace.name} ({workspace.slug}) has {people} members. Add --yes to erase it."
            )
            return
        erase_workspace(workspace)
        self.stdout.write(f"{workspace.name} was erased.")
