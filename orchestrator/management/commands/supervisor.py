"""Runs the supervisor: it recovers lost runs, fires timers and repeats lost wake-ups."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from orchestrator.supervisor import stop_on_signals, supervise


class Command(BaseCommand):
    help = "Recover lost runs, fire timers, repeat lost wake-ups. Any number may run."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        supervise(stop_on_signals())
