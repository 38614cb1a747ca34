"""Reports which sandboxes this machine can run, and which are running."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from tools_app.sandbox.provisioning import abilities, enforcement, running_sandboxes


class Command(BaseCommand):
    help = "Try every kind of sandbox on this machine, and list the running ones."

    def handle(self, *args: Any, **options: Any) -> None:
        for ability in abilities():
            self.stdout.write(f"{ability.name}: {ability.lack or 'works'}")
        for line in enforcement():
            self.stdout.write(line)
        found = running_sandboxes()
        self.stdout.write(f"{len(found)} running")
        for sandbox in found:
            self.stdout.write(f"  {sandbox.session_id}  {sandbox.kind}  {sandbox.role}")
