"""Runs one web process."""

from __future__ import annotations

import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from orchestrator.launcher.checks import listen, listen_for_checks
from orchestrator.launcher.web import serve, share_metrics


class Command(BaseCommand):
    help = "Run one web process. `up` starts WEB_PROCESSES of them on one port."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--socket", type=int, help="a listening socket, by its descriptor")
        parser.add_argument("--checks", type=int, help="a socket for health checks of this process")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["socket"] is None:
            serve(listen(settings.HOST, settings.PORT), checks=listen_for_checks())
        else:
            share_metrics()
            given, checks = (socket.socket(fileno=options[name]) for name in ("socket", "checks"))
            serve(given, checks=checks)
