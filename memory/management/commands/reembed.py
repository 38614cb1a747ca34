"""Moves memory to another embedding model, with a progress bar. It can be stopped and resumed."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from memory.embedders import default_model
from memory.embeddings import move
from tenants.models import Workspace

WIDTH = 30


class Command(BaseCommand):
    help = "Embed the memory of one workspace, or of all, with another model."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model",
            default=default_model(),
            help="minilm (the default), wordllama, gemini, openai, or openai:NAME@DIMENSIONS",
        )
        parser.add_argument(
            "--workspace", help="The name, slug or id of one workspace; default: all."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for workspace in _workspaces(options["workspace"]):
            try:
                done = move(workspace.pk, options["model"], progress=self._bar(workspace.name))
            except Fault as fault:
                raise CommandError(f"{workspace.name}: {fault.detail}") from None
            self.stdout.write(f"\n{workspace.name}: {done} chunks embedded with {options['model']}")

    def _bar(self, name: str) -> Any:
        def show(done: int, total: int) -> None:
            filled = WIDTH * done // total if total else WIDTH
            bar = "█" * filled + "░" * (WIDTH - filled)
            self.stdout.write(f"\r{name} {bar} {done}/{total}", ending="")
            self.stdout.flush()

        return show


def _workspaces(ref: str | None) -> list[Workspace]:
    rows = Workspace.objects.order_by("created_at")
    if ref is None:
        return list(rows)
    found = [row for row in rows if ref in (row.name, row.slug, str(row.pk))]
    if len(found) != 1:
        raise CommandError(f"{'No' if not found else 'More than one'} workspace matches {ref!r}.")
    return found
