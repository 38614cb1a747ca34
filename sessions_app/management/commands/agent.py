"""The runtime from the command line: agents, sessions, messages, logs, and a local orchestrator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.faults import Fault
from sessions_app.cli.desk import open_desk
from sessions_app.cli.parser import add_commands


class Command(BaseCommand):
    help = "Make agents, talk to their sessions, and run what is due without workers."

    def add_arguments(self, parser: CommandParser) -> None:
        add_commands(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            options["act"](open_desk(options, self.stdout.write))
        except Fault as fault:
            raise CommandError(" ".join(fault.detail.split())) from fault
