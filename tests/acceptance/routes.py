"""Walks the URL conf and the socket routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.admindocs.views import simplify_regex
from django.urls import URLPattern, URLResolver, get_resolver

from config.sockets import socket_routes

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, kw_only=True)
class Route:
    """One path of the URL conf, with `<name>` for what varies."""

    path: str
    view: Any

    @property
    def methods(self) -> list[str]:
        """What the view answers, as far as it says; else everything."""
        if actions := getattr(self.view, "actions", None):
            return [method for method in METHODS if method in actions]
        owner = getattr(self.view, "cls", None) or getattr(self.view, "view_class", None)
        return [method for method in METHODS if owner is None or hasattr(owner, method)]

    @property
    def is_api(self) -> bool:
        return self.path.startswith(("/api/", "/v1/", "/mcp"))

    def at(self, arguments: dict[str, object]) -> str:
        return fill(self.path, arguments)


def fill(path: str, arguments: dict[str, object]) -> str:
    """The path with these arguments in it."""
    return re.sub(r"<(\w+)>", lambda found: str(arguments[found[1]]), path)


def plain(pattern: str) -> str:
    """Any way of writing a route as `/agents/<pk>/`."""
    return re.sub(r"<\w+:(\w+)>", r"<\1>", simplify_regex(pattern))


def _walk(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[Route]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            yield Route(path=plain(path), view=pattern.callback)


def all_routes() -> list[Route]:
    """Every route; the staff pages count as one."""
    found = list(_walk(get_resolver().url_patterns))
    rest = [route for route in found if not route.path.startswith("/admin/")]
    return [Route(path="/admin/", view=None), *rest]


def all_sockets() -> list[str]:
    return [plain(str(route.pattern)) for route in socket_routes()]
