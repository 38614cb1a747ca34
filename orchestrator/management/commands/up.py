"""Runs everything with one command: PostgreSQL, web, workers, supervisor and terminals."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand

from orchestrator.launcher.parts import read_plan
from orchestrator.launcher.stack import Stack


class Command(BaseCommand):
    help = "Start Switchyard and keep it running until Ctrl-C."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        Stack(read_plan(), say=self._say).run()

    def _say(self, line: str) -> None:
        with suppress(OSError):  # the terminal may be closed, which must not stop the rest
            self.stdout.write(line)
            self.stdout.flush()
