"""Issues an API key and prints only its secret."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orchestrator.workspaces import create_workspace
from tenants.accounts import first_superuser
from tenants.keys import issue_key
from tenants.models import ApiKey
from tenants.workspaces import find_workspace, first_owner


class Command(BaseCommand):
    help = "Issue an API key for a workspace and print it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", required=True, help="name or slug of the workspace")
        parser.add_argument(
            "--create", action="store_true", help="create the workspace if it does not exist"
        )
        parser.add_argument("--scope", choices=ApiKey.Scope.values, default=ApiKey.Scope.RUN)
        parser.add_argument("--name", default="command line")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["workspace"]
        workspace = find_workspace(name)
        if workspace is None:
            if not options["create"]:
                raise CommandError(f"There is no workspace {name!r}. Add --create to create it.")
            workspace = create_workspace(name=name, owner=first_superuser())
        issued = issue_key(
            workspace_id=workspace.pk,
            name=options["name"],
            scope=options["scope"],
            created_by=first_owner(workspace.pk),
        )
        self.stdout.write(issued.secret)
