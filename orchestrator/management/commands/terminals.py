"""Runs the host of terminals, so that they outlive web processes and sockets."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from core.exceptions import CannotStart
from orchestrator.terminals.host import host_until_stopped


class Command(BaseCommand):
    help = "Run the terminals that people open in sandboxes. One per data directory."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        locks = Path(settings.DATA_DIR) / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with (locks / "terminals").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CannotStart(
                    f"Another process already runs the terminals of {settings.DATA_DIR}."
                ) from None
            host_until_stopped()
