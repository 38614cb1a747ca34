"""Declares the app to Django."""

from __future__ import annotations

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "tools_app"
    verbose_name = "Tools"

    def ready(self) -> None:
        from agents.canvas_check import provide_tools
        from tenants import vault
        from tenants.workspaces import furnishings, rooms
        from tools_app.examples import furnish
        from tools_app.folder import sessions_room
        from tools_app.mcp.servers import secrets_used
        from tools_app.registry import discover
        from tools_app.workspace_tools import tools_of_workspace

        discover()
        provide_tools(tools_of_workspace)
        furnishings.append(furnish)
        rooms.append(sessions_room)
        vault.users.append(secrets_used)
