"""Pages, REST routes and sockets of plugins. Each is served only to principals with the right to it.

Pages and REST routes live below `/plugins/NAME/`, sockets below `/ws/plugins/NAME/`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args

from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern
from django.urls import path as url
from rest_framework.views import APIView

from core.exceptions import Fault
from core.plugins import add, check_callable, current_plugin, is_subclass, refuse
from core.templatetags.frame import drawings
from tenants.access import Verb, authorise
from tenants.authentication import HasWorkspace, authorised
from tenants.sockets import CLOSE_CODES, LONGEST_REASON

#: A path below that of the plugin: empty, or parts that each end with a slash.
PATH = re.compile(r"(?:[a-z0-9_-]+/|<(?:uuid|int|slug|str):[a-z_]+>/)*")
VERBS: tuple[Verb, ...] = get_args(Verb)

View = Callable[..., HttpResponseBase]
Application = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class PluginRoute:
    """A page or a REST route."""

    pattern: URLPattern
    #: The rail leads to pages with a title.
    title: str = ""
    icon: str = ""
    needs: Verb = "read"

    @property
    def url_name(self) -> str:
        return self.pattern.name or ""


#: By plugin and path, as `acme/reports/`.
routes: dict[str, PluginRoute] = {}
sockets: dict[str, URLPattern] = {}


def patterns() -> list[URLPattern]:
    """Return the URLs of all plugins, for the URL configuration."""
    return [route.pattern for route in routes.values()]


def rail_pages() -> list[PluginRoute]:
    return [route for route in routes.values() if route.title]


def register_page(
    view: View, *, path: str = "", title: str = "", icon: str = "plug", needs: Verb = "read"
) -> None:
    """Serve a view as a page. With a title, the rail and the palette lead to it."""
    address = _address("page", path, needs)
    check_callable(view, kind="page", what="the view")
    if icon not in drawings():
        refuse("page", f"there is no icon {icon!r}. Known: {', '.join(sorted(drawings()))}.")
    if title and "<" in path:
        refuse("page", f"{path!r} names an object, so nothing can lead to it; leave the title out.")

    @wraps(view)
    def page(request: HttpRequest, *args: Any, **arguments: Any) -> HttpResponseBase:
        authorised(request, needs)
        return view(request, *args, **arguments)

    _serve("page", address, page, title=title, icon=icon, needs=needs)


def register_route(
    view: type[APIView], *, path: str, needs: Verb | Mapping[str, Verb] | None = None
) -> None:
    """Serve a REST view, which the OpenAPI document describes.

    `needs` is the right for every method, or one for each; by default reading needs `read` and
    everything else `run`.
    """
    verbs = dict(needs) if isinstance(needs, Mapping) else {}
    if isinstance(needs, str):
        verbs = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), needs)
    address = _address("route", path, *verbs.values())
    if not is_subclass(view, APIView):
        refuse("route", f"{view!r} must be a class that derives from rest_framework's APIView.")
    guarded: Any = type(
        view.__name__,
        (view,),
        {
            "__module__": view.__module__,
            "__doc__": view.__doc__,
            "verbs": verbs or getattr(view, "verbs", {}),
            # Another way to identify callers could leave out the check of the CSRF token.
            "authentication_classes": APIView.authentication_classes,
            # Whatever the view itself demands comes after the right that every route needs.
            "permission_classes": [HasWorkspace, *view.permission_classes],
        },
    )
    _serve("route", address, guarded.as_view())


def register_socket(
    consumer: type[AsyncWebsocketConsumer], *, path: str, needs: Verb = "read"
) -> None:
    """Serve a consumer of WebSockets, such as a `PumpedConsumer`."""
    address = _address("socket", path, needs)
    if not is_subclass(consumer, AsyncWebsocketConsumer):
        refuse("socket", f"{consumer!r} must derive from PumpedConsumer or AsyncWebsocketConsumer.")
    if address in sockets:
        refuse("socket", f"the path {path!r} is taken.")
    guarded = _authorised_socket(consumer.as_asgi(), needs)
    pattern = url(f"ws/plugins/{address}", guarded)  # type: ignore[arg-type]
    add(sockets, address, pattern, kind="socket", name=f"/ws/plugins/{address}")


def _authorised_socket(consumer: Any, needs: Verb) -> Application:
    """Return an application that passes on only sockets whose principal has the right."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        try:
            authorise(scope["principal"], needs)
        except Fault as fault:
            # Browsers see a close code only after the handshake.
            await send({"type": "websocket.accept"})
            reason = fault.detail.encode()[:LONGEST_REASON].decode(errors="ignore")
            code = CLOSE_CODES + fault.status
            await send({"type": "websocket.close", "code": code, "reason": reason})
            return
        await consumer(scope, receive, send)

    return serve


def _address(kind: str, path: str, *needs: str) -> str:
    if not PATH.fullmatch(str(path)):
        refuse(kind, f"the path {path!r} must look like 'reports/' or 'reports/<uuid:report_id>/'.")
    for verb in needs:
        if verb not in VERBS:
            refuse(kind, f"needs={verb!r} must be one of {', '.join(VERBS)}.")
    return f"{current_plugin().name}/{path}"


def _serve(kind: str, address: str, view: View, **page: Any) -> None:
    if address in routes:
        refuse(kind, f"the path {address!r} is taken.")
    made = PluginRoute(pattern=url(f"plugins/{address}", view, name=_url_name(address)), **page)
    add(routes, address, made, kind=kind, name=f"/plugins/{address}")


def _url_name(address: str) -> str:
    """Return the name of a route: `plugin_acme_reports` for `acme/reports/`."""
    parts = [re.sub(r"<\w+:(\w+)>", r"\1", part) for part in address.split("/") if part]
    return "_".join(["plugin", *parts]).replace("-", "_")
