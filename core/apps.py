"""Declares the app to Django, and loads plugins before any other app is ready."""

from __future__ import annotations

from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "core"

    def ready(self) -> None:
        from core.plugins import load

        load()
