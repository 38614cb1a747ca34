"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from core.sql_functions import install_after_migrate


class OrchestratorConfig(AppConfig):
    name = "orchestrator"
    verbose_name = "Orchestrator"

    def ready(self) -> None:
        from orchestrator import checks  # noqa: F401 (registers them)
        from orchestrator.engine.definition import discover

        # Imports the engine too, and with it the resolver of the approvals that workflows wait for.
        discover()
        # The rightmost app: every table exists when its signal comes.
        post_migrate.connect(install_after_migrate, sender=self)
