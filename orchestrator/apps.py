"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig


class OrchestratorConfig(AppConfig):
    name = "orchestrator"
    verbose_name = "Orchestrator"

    def ready(self) -> None:
        from orchestrator import gates  # noqa: F401 - answers approvals of workflows
        from orchestrator.engine.definition import discover
        from orchestrator.engine.store import EXPIRE
        from orchestrator.tasks import KINDS as OURS
        from sessions_app.cluster_guards import EXPIRING
        from sessions_app.tasks import KINDS

        discover()
        KINDS.update(OURS)
        if EXPIRE not in EXPIRING:
            EXPIRING.append(EXPIRE)
