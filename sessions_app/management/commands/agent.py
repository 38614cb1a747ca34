"""Works with agents and sessions from the command line, and runs due work without workers."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from core.exceptions import Fault
from sessions_app.management.cli import add_commands, command_context

EXIT_INTERRUPTED = 130  #: The exit code of a command that Ctrl-C ended.


class Command(BaseCommand):
    help = "Create agents, work with their sessions, and run due work without workers."

    def add_arguments(self, parser: CommandParser) -> None:
        add_commands(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            options["act"](command_context(options, self.stdout.write, self.stderr.write))
        except Fault as fault:
            raise CommandError(" ".join(fault.detail.split())) from fault
        except DatabaseError as error:
            message = str(error).strip().split("\n")[0]
            raise CommandError(f"{message}. Has Switchyard been started here once?") from error
        except KeyboardInterrupt:
            raise CommandError("Broken off.", returncode=EXIT_INTERRUPTED) from None
