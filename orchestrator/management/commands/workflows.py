"""Lists, starts and controls workflows."""

from __future__ import annotations

from django.core.management.base import CommandParser

from orchestrator.management.cli.parser import add_commands
from sessions_app.management.commands.agent import Command as AgentCommand


class Command(AgentCommand):
    help = "List, start and control workflows."

    def add_arguments(self, parser: CommandParser) -> None:
        add_commands(parser)
