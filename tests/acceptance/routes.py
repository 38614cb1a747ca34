"""Lists all routes of the URL configuration and all socket routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.admindocs.views import simplify_regex
from django.urls import URLPattern, URLResolver, get_resolver

from config.routing import websocket_urlpatterns

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, kw_only=True)
class Route:
    """A path of the URL configuration, with `<name>` for each parameter."""

    path: str
    view: Any

    @property
    def methods(self) -> list[str]:
        """Return the methods that the view declares, or all methods if it declares none."""
        if actions := getattr(self.view, "actions", None):
            return [method for method in METHODS if method in actions]
        owner = getattr(self.view, "cls", None) or getattr(self.view, "view_class", None)
        return [method for method in METHODS if owner is None or hasattr(owner, method)]

    @property
    def is_api(self) -> bool:
        return self.path.startswith(("/api/", "/v1/", "/ag-ui/", "/mcp"))

    def at(self, arguments: dict[str, object]) -> str:
        return fill(self.path, arguments)


def fill(path: str, arguments: dict[str, object]) -> str:
    """Return the path with its parameters replaced by these arguments."""
    return re.sub(r"<(\w+)>", lambda match: str(arguments[match[1]]), path)


def simplify(pattern: str) -> str:
    """Return a route of any syntax in the form `/agents/<pk>/`."""
    return re.sub(r"<\w+:(\w+)>", r"<\1>", simplify_regex(pattern))


def _walk(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[Route]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            yield Route(path=simplify(path), view=pattern.callback)


def all_routes() -> list[Route]:
    """Return every route. The admin counts as one."""
    found = list(_walk(get_resolver().url_patterns))
    rest = [route for route in found if not route.path.startswith("/admin/")]
    return [Route(path="/admin/", view=None), *rest]


def all_sockets() -> list[str]:
    return [simplify(str(route.pattern)) for route in websocket_urlpatterns]
