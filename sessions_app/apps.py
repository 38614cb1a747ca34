"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    verbose_name = "Sessions"

    def ready(self) -> None:
        from memory.trust import use_rule
        from sessions_app.outside import trust_of_call
        from sessions_app.preparing.files import shared_room
        from sessions_app.sessions import name_sessions
        from tenants.usage import namers
        from tenants.workspaces import rooms

        namers["session"] = name_sessions
        rooms.append(shared_room)
        use_rule(trust_of_call)
