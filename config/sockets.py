"""Collects the socket routes of all apps; an app brings its own in `routing.py`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import URLRouter
from django.urls import URLPattern, re_path

from config.faults import NotFound

APPS = ("tenants", "agents", "tools_app", "memory", "sessions_app", "orchestrator")
NOT_FOUND = 4000 + NotFound.status


class NoSuchSocket(AsyncWebsocketConsumer):
    """Says that there is nothing here. A code sent before accepting would not reach a browser."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=NOT_FOUND, reason=NotFound().detail)


def socket_routes() -> list[URLPattern]:
    routes: list[URLPattern] = []
    for app in APPS:
        if find_spec(f"{app}.routing"):
            routes += import_module(f"{app}.routing").websocket_urlpatterns
    return routes


def socket_router() -> Any:
    """A path works without its last slash too: no client of a socket follows a redirect."""
    router = URLRouter([*socket_routes(), re_path("", NoSuchSocket.as_asgi())])

    async def route(scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope["path"]
        await router({**scope, "path": path if path.endswith("/") else f"{path}/"}, receive, send)

    return route
