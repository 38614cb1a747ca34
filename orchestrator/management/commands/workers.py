"""Runs the workers: a django-q2 cluster that survives the death of any of its processes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django_q.cluster import Cluster

from orchestrator import worker


class Command(BaseCommand):
    help = "Run the workers. WORKERS sets the number of processes."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        worker.install()
        Cluster().start()
