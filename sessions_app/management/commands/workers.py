"""Runs a django-q2 cluster with the guards that let it survive kills."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django_q.cluster import Cluster

from sessions_app import cluster_guards


class Command(BaseCommand):
    help = "Run the workers. WORKERS sets the number of processes."

    def handle(self, *args: Any, **options: Any) -> None:
        cluster_guards.install()
        Cluster().start()
