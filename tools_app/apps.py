"""Configures the app and registers its tools."""

from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools_app"
    verbose_name = "Tools"

    def ready(self) -> None:
        from tools_app.registry import discover

        discover()
