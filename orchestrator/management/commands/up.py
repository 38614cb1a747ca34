"""Runs everything with one command: PostgreSQL, web, workers and supervisor."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand

from orchestrator.up.plan import read_plan
from orchestrator.up.stack import Stack


class Command(BaseCommand):
    help = "Start the whole of Switchyard and keep it running until Ctrl-C."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        Stack(read_plan(), say=self._say).run()

    def _say(self, line: str) -> None:
        with suppress(OSError):  # the terminal may be gone, which must not stop the rest
            self.stdout.write(line)
            self.stdout.flush()
