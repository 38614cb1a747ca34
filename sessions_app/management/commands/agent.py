"""The runtime from the command line: agents, sessions, messages, logs, and a local orchestrator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from config.faults import Fault
from sessions_app.cli.desk import open_desk
from sessions_app.cli.parser import add_commands

BROKEN_OFF = 130  #: What shells say of a command that Ctrl-C ended.


class Command(BaseCommand):
    help = "Make agents, talk to their sessions, and run what is due without workers."

    def add_arguments(self, parser: CommandParser) -> None:
        add_commands(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            options["act"](open_desk(options, self.stdout.write))
        except Fault as fault:
            raise CommandError(" ".join(fault.detail.split())) from fault
        except DatabaseError as error:
            said = str(error).strip().split("\n")[0]
            raise CommandError(f"{said}. Has Switchyard been started here once?") from error
        except KeyboardInterrupt:
            raise CommandError("Broken off.", returncode=BROKEN_OFF) from None
