"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents"

    def ready(self) -> None:
        from agents.definitions import name_agents
        from agents.examples import furnish
        from tenants.usage import namers
        from tenants.workspaces import furnishings

        furnishings.append(furnish)
        namers["agent"] = name_agents
