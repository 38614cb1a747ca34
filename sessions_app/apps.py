"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    verbose_name = "Sessions"

    def ready(self) -> None:
        from sessions_app.sessions import name_sessions
        from tenants.usage import namers

        namers["session"] = name_sessions
        from memory.trust import use_rule
        from sessions_app.outside import trust_of_call

        use_rule(trust_of_call)
