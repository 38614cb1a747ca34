"""The WebSocket routes of every app, and the one HTTP path that Django does not serve."""

from __future__ import annotations

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from django.urls import re_path

from agents import consumers as agents
from core.exceptions import NotFound
from core.server import OneThreadHandler
from orchestrator import consumers as orchestrator
from sessions_app import consumers as sessions_app
from tenants import consumers as tenants
from tenants import plugin_routes

NOT_FOUND = 4000 + NotFound.status


class NotFoundConsumer(AsyncWebsocketConsumer):
    """Closes sockets of unknown paths. Browsers only see a close code after the handshake."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=NOT_FOUND, reason=NotFound().detail)


websocket_urlpatterns = [
    *tenants.websocket_urlpatterns,
    *agents.websocket_urlpatterns,
    *sessions_app.websocket_urlpatterns,
    *orchestrator.websocket_urlpatterns,
    *plugin_routes.sockets.values(),
]


def http_router() -> Any:
    """Return the application of HTTP: Django, and beside it the door that another library serves."""
    django = OneThreadHandler()
    mcp: Any = None

    async def route(scope: dict[str, Any], receive: Any, send: Any) -> None:
        nonlocal mcp
        if scope["path"].rstrip("/") != "/mcp":
            await django(scope, receive, send)
            return
        if mcp is None:
            # Imported when it is first needed, as its library is large.
            from sessions_app.api.mcp import McpDoor

            mcp = McpDoor()
        await mcp(scope, receive, send)

    return route


def socket_router() -> Any:
    """Return the router. It adds a missing last slash, as socket clients follow no redirect."""
    router = URLRouter([*websocket_urlpatterns, re_path("", NotFoundConsumer.as_asgi())])

    async def route(scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope["path"]
        await router({**scope, "path": path if path.endswith("/") else f"{path}/"}, receive, send)

    return route
